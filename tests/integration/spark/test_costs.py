"""Laws V3, V7, N1 and K8: a task whose rows and batches cost something in several dimensions."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pyarrow as pa
import pytest
from tenacity.wait import wait_fixed

from dispatcher.spark import BatchFailedError, UnusableRowsError
from dispatcher.spark._ledger.division import Division
from dispatcher.spark._options import DeliveryOptions, for_tasks, prices_of
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.expressions import Expression
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.sums import cost_of
from dispatcher.spark._task.task import TaskJob
from dispatcher.spark.context import Context
from limiters import LimiterConfig
from limiters.embedded import EmbeddedRedis
from limiters.limits import InFlight, Limits, Rate
from tests.integration.spark.test_packs import Handler

TOKENS = 40
API = Limits(requests=Rate(1_000), tokens=Rate(TOKENS, per=0.05), calls=InFlight(3))
COST = {"requests": 0.5, "tokens": lambda row: row["tokens"]}
BATCH = {"requests": 1, "tokens": 4, "calls": 1}


def rows(subjects: int, each: int = 2) -> list[dict[str, Any]]:
    """Return so many rows of each subject. `n` is a number of its own."""
    return [
        {"subject": f"s{subject:03}", "time": place, "n": subject * each + place}
        | {"tokens": (subject * each + place) % 7}
        for subject in range(subjects)
        for place in range(each)
    ]


def limiter(redis: EmbeddedRedis, name: str, limits: Limits = API) -> LimiterConfig:
    return LimiterConfig(
        url=redis.url, name=name, shared_capacity=limits, lease_time=1.0, max_interval=0.1
    )


def run(
    handler: Any,
    given: list[dict[str, Any]],
    *,
    at_once: int = 10_000,
    columns: Columns | None = None,
    cut: Cut | None = None,
    packed: bool = True,
    **options: Any,
) -> dict[str, float]:
    """Run a task with the rows, `at_once` in a record batch, and return its sums."""
    sending = DeliveryOptions(**{"handler": handler, "cost": COST, "rows": "dict", **options})
    most = prices_of(sending).most
    job = TaskJob(
        for_tasks(sending),
        columns or Columns("subject", "time"),
        cut or Cut(10, most),
        "number",
        "orders",
        1,
        None,
        division=Division(1, 10, most) if packed else None,
    )
    (sums,) = job.run(pa.Table.from_pylist(given).to_batches(at_once))
    return {name: sums.column(name)[0].as_py() for name in sums.schema.names}


def tokens(handler: Handler, given: list[dict[str, Any]]) -> list[int]:
    """Return the tokens of each call."""
    of = {row["n"]: row["tokens"] for row in given}
    return [sum(of[n] for n in batch) for batch in handler.batches]


@pytest.mark.parametrize("at_once", [1, 10, 10_000])
def test_v3_k8_packs_are_filled_by_all_dimensions_with_any_record_batches(
    at_once: int, shared_redis: EmbeddedRedis
) -> None:
    given, handler, expected = rows(60), Handler(), Handler()
    limit = limiter(shared_redis, "packs")
    sums = run(handler, given, at_once=at_once, limiter=limit, batch_cost=BATCH)
    run(expected, given, at_once=37, limiter=limit, batch_cost=BATCH)

    assert handler.batches == expected.batches
    assert sorted(handler.keys) == sorted(expected.keys)
    assert sorted(n for batch in handler.batches for n in batch) == [row["n"] for row in given]
    spent = tokens(handler, given)
    assert max(spent) <= TOKENS - BATCH["tokens"]
    assert max(map(len, handler.batches)) <= 10
    assert len(spent) <= 1.2 * max(len(given) / 10, sum(spent) / (TOKENS - 4)) + 1, "full ones"
    calls = len(handler.calls)
    assert cost_of(sums) == {
        "requests": calls + len(given) / 2,
        "tokens": 4 * calls + sum(spent),
        "calls": calls,
    }


class Together:
    """Handlers of one process that run at the same time. Its state cannot be sent to another
    process."""

    lock = threading.Lock()
    three = threading.Barrier(3, timeout=30)
    running = 0
    most = 0

    @classmethod
    def start(cls) -> None:
        cls.three.reset()
        cls.most = 0


def take_together(batch: list[Any]) -> None:
    with Together.lock:
        Together.running += 1
        Together.most = max(Together.most, Together.running)
    try:
        if batch[0]["n"] < 30:  # the first three handlers wait until all of them run
            Together.three.wait()
    finally:
        with Together.lock:
            Together.running -= 1


async def take_together_async(batch: list[Any]) -> None:
    await asyncio.to_thread(take_together, batch)


@pytest.mark.parametrize("handler", [take_together, take_together_async])
def test_n1_as_many_handlers_run_as_there_are_slots_and_no_more(
    handler: Any, shared_redis: EmbeddedRedis
) -> None:
    limits = Limits(requests=Rate(10_000), calls=InFlight(3))
    Together.start()
    sums = run(
        handler,
        rows(30, 10),
        limiter=limiter(shared_redis, f"slots-{handler.__name__}", limits),
        cost={"requests": 1},
        batch_cost={"calls": 1},
        concurrency=16,
    )
    assert (Together.most, sums["calls"]) == (3, 30)


@pytest.mark.parametrize("packed", [True, False])
def test_v7_a_row_that_costs_too_much_in_one_dimension_is_a_dead_letter_that_names_it(
    packed: bool, shared_redis: EmbeddedRedis
) -> None:
    given = rows(5)
    given[5]["tokens"] = 37
    dead: list[tuple[Any, list[int], str]] = []

    def take_dead(batch: list[Any], context: Context) -> None:
        dead.append((context.subject, [row["n"] for row in batch], context.reason))

    handler = Handler()
    options: dict[str, Any] = {"limiter": limiter(shared_redis, "dead"), "batch_cost": BATCH}
    options["packed"] = packed
    run(handler, given, dead_letters=take_dead, **options)

    ((subject, numbers, reason),) = dead
    assert (subject, numbers) == ("s002", [5])
    assert reason.startswith("it costs 37 of tokens, and the rows of a batch may cost 36 of tokens")
    assert sorted(n for batch in handler.batches for n in batch) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    with pytest.raises(UnusableRowsError, match=r"'s002' in .*: it costs 37 of tokens"):
        run(Handler(), given, **options)


def test_v3_each_attempt_and_each_subject_of_a_divided_pack_pays_for_its_batch(
    shared_redis: EmbeddedRedis,
) -> None:
    given = rows(4)

    def dislikes(batch: list[Any], context: Context) -> None:
        if any(row["subject"] == "s001" for row in batch):
            raise RuntimeError("not liked")

    handler, dead = Handler(dislikes), list[Any]()
    sums = run(
        handler,
        given,
        limiter=limiter(shared_redis, "divided"),
        batch_cost=BATCH,
        retry=(wait_fixed(0.01), lambda state: state.attempt_number >= 2),
        dead_letters=dead.extend,
    )
    # Twice the pack of four subjects, then three subjects alone, and twice the one that fails.
    assert [row["n"] for row in dead] == [2, 3]
    assert len(handler.calls) == 2 + 3 + 2
    assert sums["cost:calls"] == 7
    assert sums["cost:requests"] == 7 + 2 * 4 + 3 * 1 + 2 * 1


def test_costs_of_columns_and_of_tasks_are_charged_together(
    shared_redis: EmbeddedRedis,
) -> None:
    given, handler = rows(6), Handler()
    columns = Columns("subject", "time", costs={"tokens": Expression("tokens * 2")})
    cost = {"tokens": "tokens * 2", "requests": lambda row: row["time"]}
    limit = limiter(shared_redis, "columns")
    sums = run(handler, given, columns=columns, cost=cost, limiter=limit, batch_cost={"calls": 1})
    assert sums["cost:tokens"] == 2 * sum(row["tokens"] for row in given)
    assert sums["cost:requests"] == sum(row["time"] for row in given)


def cannot(row: dict[str, Any]) -> float:
    return 1 / 0 if row["n"] == 1 else 1


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"tokens": lambda row: -(row["n"] == 1)}, "its cost of tokens is -1, and a cost is a number"),
    ({"calls": lambda row: 0.5 * (row["n"] == 1)}, "its cost of calls is 0.5, and a number of"),
    ({"tokens": cannot}, "its cost of tokens, a function of a row, has raised ZeroDivisionError"),
    ({"tokens": lambda row: "7" if row["n"] == 1 else 7}, "its cost of tokens is '7', which is"),
    ({"tokens": lambda row: None if row["n"] == 1 else 7}, "its cost of tokens is None, which is"),
]


@pytest.mark.parametrize(("cost", "reason"), UNUSABLE)
@pytest.mark.parametrize("packed", [True, False])
def test_k2_a_row_whose_cost_cannot_be_charged_is_a_dead_letter_or_fails_the_task(
    cost: dict[str, Any], reason: str, packed: bool, shared_redis: EmbeddedRedis
) -> None:
    given, handler, dead = rows(3, each=3), Handler(), list[tuple[Any, ...]]()

    def take_dead(batch: list[Any], context: Context) -> None:
        dead.append(([row["n"] for row in batch], context.reason))

    options: dict[str, Any] = {"cost": cost, "batch_cost": {"calls": 1}, "packed": packed}
    options["limiter"] = limiter(shared_redis, "wrong")
    run(handler, given, dead_letters=take_dead, **options)

    ((numbers, found),) = dead
    assert numbers == [1]
    assert found.startswith(reason)
    assert sorted(n for batch in handler.batches for n in batch) == [0, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(UnusableRowsError, match=f"a row of subject 's000' in .*: {reason}"):
        run(Handler(), given, **options)


def test_k2_a_built_batch_with_a_message_of_no_cost_is_a_dead_letter() -> None:
    given = [
        {"subject": subject, "time": 0, "end": 1, "messages": [{"n": n}, {"n": n + 1}]}
        for n, subject in enumerate("abc")
    ]
    handler, dead = Handler(), list[tuple[Any, ...]]()

    def take_dead(batch: list[Any], context: Context) -> None:
        dead.append((context.subject, batch, context.reason))

    run(
        handler,
        given,
        packed=False,
        columns=Columns("subject", "time", "end", messages="messages"),
        cut=Cut(1, each=True),
        cost=lambda message: None if message["n"] == 3 else 2.0,
        dead_letters=take_dead,
    )

    ((subject, messages, reason),) = dead
    assert (subject, messages) == ("c", [{"n": 2}, {"n": 3}])
    assert reason.startswith("its cost, a function of a row, has raised TypeError")
    assert sorted(handler.batches) == [[0, 1], [1, 2]]


def test_v7_a_batch_that_no_longer_fits_one_dimension_fails_with_its_name(
    shared_redis: EmbeddedRedis,
) -> None:
    sending: dict[str, Any] = {
        "limiter": limiter(shared_redis, "global"),
        "cost": {"tokens": 30, "calls": 1},
    }
    job = TaskJob(
        DeliveryOptions(handler=Handler(), rows="dict", **sending),
        Columns(None, "time", subject="subject"),
        Cut(10, same_subject=False),  # as with order="global", which no limit bounds
        "number",
        "orders",
        1,
        None,
    )
    with pytest.raises(BatchFailedError, match=r"costs 60 of tokens, more than .* 40 of tokens"):
        list(job.run(pa.Table.from_pylist(rows(1)).to_batches()))


def test_costs_in_dimensions_are_counted_without_a_limit() -> None:
    handler = Handler()
    sums = run(handler, rows(10), batch_cost=BATCH)

    assert cost_of(sums) == {
        "requests": 10 + len(handler.calls),
        "tokens": sum(row["tokens"] for row in rows(10)) + 4 * len(handler.calls),
        "calls": len(handler.calls),
    }
