"""Rows that a handler changes, that it names as failed, or that it cannot receive: a task of a
sink, without Spark."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tenacity import wait_fixed

from dispatcher.outcomes import PartialFailure, Reject
from dispatcher.spark import BatchFailedError, ChangedSinkError, LimitAwayError, UnusableRowsError
from dispatcher.spark._ledger.claims import SendClaim
from dispatcher.spark._options import DeliveryOptions
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.task import TaskJob
from dispatcher.spark.context import Context
from limiters import LimiterConfig, RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from tests.integration.spark.test_task import claimed
from tests.servers.proxy import Proxy

COLUMNS = Columns("subject", "time", hash="hash", added=("hash",))
BEYOND = 253_402_300_800_000_000
"""The first microsecond of the year 10000."""


def table(numbers: list[int], subject: str = "a") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "subject": [subject] * len(numbers),
            "time": numbers,
            "n": numbers,
            "tags": [[f"tag {n}"] for n in numbers],
            "hash": [31 * n for n in numbers],
        }
    )


def run(
    handler: Any,
    batch: pa.RecordBatch,
    claim: SendClaim | None = None,
    most: int = 10,
    **options: Any,
) -> dict[str, float]:
    sending = DeliveryOptions(handler=handler, **{"cost": 1.0, "rows": "dict", **options})
    (sums,) = TaskJob(sending, COLUMNS, Cut(most), "number", "orders", 1, claim).run([batch])
    return {name: sums.column(name)[0].as_py() for name in sums.schema.names}


RETRIED: dict[str, Any] = {"retry": wait_fixed(0.01), "max_attempts": 3}


@pytest.mark.parametrize("rows", ["dict", "row", "tuple", "arrow"])
def test_each_attempt_and_a_dead_letter_have_the_rows_as_they_came(rows: str) -> None:
    seen: list[list[Any]] = []
    dead: list[list[Any]] = []

    def changes_and_fails(batch: Any) -> None:
        listed = batch.to_pylist() if rows == "arrow" else batch
        seen.append([repr(one) for one in listed])
        if rows != "arrow":
            for one in batch:
                one["tags" if rows == "dict" else 3].clear()
            batch.clear()
        raise RuntimeError("no")

    sums = run(changes_and_fails, table([1, 2]), rows=rows, dead_letters=dead.append, **RETRIED)

    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]
    assert dead == [[{"subject": "a", "time": n, "n": n, "tags": [f"tag {n}"]} for n in (1, 2)]]
    assert (sums["rejected_rows"], sums["sent_rows"]) == (2, 0)


class Partly:
    """A handler that refuses some numbers, and names their rows."""

    def __init__(self, bad: set[int], cause: BaseException | None = None, until: int = 99) -> None:
        self.bad = bad
        self.cause = cause
        self.until = until
        self.calls: list[tuple[list[int], str]] = []

    def __call__(self, batch: Any, context: Context) -> None:
        arrow = isinstance(batch, pa.RecordBatch)
        numbers = batch.column("n").to_pylist() if arrow else [row["n"] for row in batch]
        self.calls.append((numbers, context.key))
        failed = [place for place, n in enumerate(numbers) if n in self.bad]
        if failed and context.attempt < self.until:
            raise PartialFailure(failed if arrow else [batch[i] for i in failed], self.cause)


@pytest.mark.parametrize("rows", ["dict", "arrow"])
def test_only_rows_that_a_handler_names_become_dead_letters(rows: str) -> None:
    dead: list[Any] = []
    handler = Partly({2, 4}, Reject("not wanted"))

    sums = run(
        handler.__call__, table([1, 2, 3, 4, 5]), rows=rows, dead_letters=dead.append, most=4
    )

    assert [[row["n"] for row in batch] for batch in dead] == [[2, 4]]
    assert (sums["rejected_rows"], sums["sent_rows"], sums["batches"]) == (2, 3, 2)
    assert [numbers for numbers, _ in handler.calls] == [[1, 2, 3, 4], [5]]


def test_only_rows_that_a_handler_names_are_tried_again_under_a_key_of_their_own() -> None:
    handler = Partly({2, 4}, until=3)

    sums = run(handler.__call__, table([1, 2, 3, 4, 5]), **RETRIED)

    assert [numbers for numbers, _ in handler.calls] == [[1, 2, 3, 4, 5], [2, 4], [2, 4]]
    (_, whole), (_, part), (_, again) = handler.calls
    assert whole != part == again
    assert (sums["sent_rows"], sums["retries"]) == (5, 2)


def test_fewer_rows_may_fail_at_each_attempt() -> None:
    dead: list[Any] = []

    class Shrinking(Partly):
        def __call__(self, batch: Any, context: Context) -> None:
            super().__call__(batch, context)

    handler = Shrinking({2, 4, 5})

    def call(batch: Any, context: Context) -> None:
        try:
            handler(batch, context)
        finally:
            handler.bad.pop()

    handler.bad = {2, 4, 5}
    run(call, table([1, 2, 3, 4, 5]), dead_letters=dead.append, **RETRIED)

    numbers = [numbers for numbers, _ in handler.calls]
    assert numbers[0] == [1, 2, 3, 4, 5]
    assert set(numbers[1]) == {2, 4, 5}
    assert len(numbers[2]) == 2
    assert [len(batch) for batch in dead] == [1]


def test_a_partial_failure_with_rows_of_other_batches_fails_the_whole_batch() -> None:
    def strange(batch: Any) -> None:
        raise PartialFailure([dict(batch[0])])

    dead: list[Any] = []
    run(strange, table([1, 2]), dead_letters=lambda rows, context: dead.append((rows, context)))

    ((rows, context),) = dead
    assert [row["n"] for row in rows] == [1, 2]
    assert "must name rows of this batch, the very objects" in context.reason


def test_without_dead_letters_a_partial_failure_fails_the_task() -> None:
    with pytest.raises(BatchFailedError, match="failed for good after 1 attempt: "):
        run(Partly({2}).__call__, table([1, 2]))


async def on_a_loop(batch: list[Any]) -> None:
    raise Reject("not wanted")


def in_a_thread(batch: list[Any]) -> None:
    raise Reject("not wanted")


@pytest.mark.parametrize("handler", [on_a_loop, in_a_thread])
def test_dead_letters_may_be_a_coroutine_function(handler: Any) -> None:
    dead: list[int] = []

    async def takes(batch: list[Any], context: Context) -> None:
        await asyncio.sleep(0)
        dead.extend(row["n"] for row in batch)

    sums = run(handler, table([1, 2]), dead_letters=takes)

    assert dead == [1, 2]
    assert sums["rejected_rows"] == 2


def test_a_row_that_python_cannot_hold_is_named_and_becomes_a_dead_letter() -> None:
    sent: list[int] = []
    dead: list[tuple[list[Any], str]] = []
    until = pa.array([0, BEYOND, 0], pa.timestamp("us", "America/New_York"))
    batch = table([1, 2, 3]).append_column("until", until)

    with pytest.raises(
        UnusableRowsError, match=r"in micro-batch 1 of query 'orders' cannot be sent"
    ):
        run(lambda rows: None, batch)
    with pytest.raises(UnusableRowsError, match=r"its until \(9999-12-31 .* beyond what Python"):
        run(lambda rows: None, batch)
    sums = run(
        lambda rows: sent.extend(row["n"] for row in rows),
        batch,
        dead_letters=lambda rows, context: dead.append((rows, context.reason)),
        cost=lambda row: row["until"].year / 1000,
    )

    assert sent == [1, 3]
    (((row,), reason),) = dead
    assert (row["n"], row["until"]) == (2, "9999-12-31 19:00:00.000000-0500")
    assert reason == "its until (9999-12-31 19:00:00.000000-0500) is beyond what Python can hold"
    assert (sums["sent_rows"], sums["rejected_rows"]) == (2, 1)


def refuses(numbers: set[int]) -> Any:
    def handler(batch: list[Any]) -> None:
        if numbers & {row["n"] for row in batch}:
            raise RuntimeError("no")

    return handler


def test_k3_rows_that_were_sent_and_are_missing_in_a_replay_stop_the_query(
    shared_redis: EmbeddedRedis,
) -> None:
    with pytest.raises(BatchFailedError):
        run(refuses({5}), table([1, 2, 3, 4, 5, 6]), claimed(shared_redis.url), most=2)

    sent: list[int] = []
    note = lambda rows: sent.extend(row["n"] for row in rows)  # noqa: E731
    with pytest.raises(ChangedSinkError, match=r"of subject 'a', 4 rows of micro-batch 1"):
        run(note, table([1, 4, 5, 6]), claimed(shared_redis.url))
    assert not sent

    run(note, table([1, 2, 3, 4, 6]), claimed(shared_redis.url))
    assert sent == [6]


@pytest.fixture
def away(proxy: Proxy) -> Iterator[Proxy]:
    yield proxy
    proxy.accept()


def test_a_limit_that_does_not_answer_fails_the_task_after_its_patience(away: Proxy) -> None:
    limiter = LimiterConfig(url=away.url, name="shop", shared_capacity=100, factor=10)
    away.refuse()

    with pytest.raises(
        LimitAwayError, match=r"limit 'shop' at redis://.* has not answered for 0.5"
    ):
        run(lambda rows: None, table([1, 2]), limiter=limiter, patience=0.5)


def test_a_limit_that_refuses_the_task_fails_it_with_a_command_to_run(
    shared_redis: EmbeddedRedis,
) -> None:
    url = shared_redis.url
    with SharedResource(
        shared_capacity=10, lease_manager=RedisLeaseManager(url, name="shop", lease_time=9)
    ) as first:
        assert first.acquire(1, timeout=60)
        limiter = LimiterConfig(url=url, name="shop", shared_capacity=10)
        with pytest.raises(LimitAwayError, match="dispatcher limit set shop --lease-time 5"):
            run(lambda rows: None, table([1, 2]), limiter=limiter, patience=60)


def test_a_limit_that_is_only_busy_does_not_fail_the_task(shared_redis: EmbeddedRedis) -> None:
    url, patience = shared_redis.url, 2.0
    busy = SharedResource(
        shared_capacity=10,
        factor=10,
        period=6.0,
        max_interval=0.1,
        lease_manager=RedisLeaseManager(url, name="shop", lease_time=2),
    )
    with busy:
        assert busy.acquire(10, timeout=60)
        began = time.monotonic()
        limiter = LimiterConfig(
            url=url,
            name="shop",
            shared_capacity=10,
            factor=10,
            period=6.0,
            max_interval=0.1,
            lease_time=2,
        )
        sums = run(lambda rows: None, table([1, 2]), limiter=limiter, patience=patience, cost=5.0)

    assert sums["sent_rows"] == 2
    assert time.monotonic() - began > patience


def test_reserved_capacity_is_used_while_the_limit_is_away(away: Proxy) -> None:
    limiter = LimiterConfig(
        url=away.url, name="shop", shared_capacity=100, factor=10, reserved_capacity=10, period=0.2
    )
    away.refuse()
    eight = table(list(range(8)))
    sums = run(lambda rows: None, eight, limiter=limiter, patience=2, most=1, cost=5.0)

    assert sums["sent_rows"] == 8


@pytest.mark.parametrize(
    "returns",
    [on_a_loop, lambda rows: (row for row in rows), lambda rows: map(print, rows)],
    ids=["a coroutine", "a generator", "a map"],
)
def test_dead_letters_whose_target_did_not_run_fail_the_task(returns: Any) -> None:
    with pytest.raises(BatchFailedError, match="NothingRunError"):
        run(in_a_thread, table([1, 2]), dead_letters=lambda rows: returns(rows))


def test_rows_that_are_named_twice_are_sent_again_once() -> None:
    calls: list[list[int]] = []

    def names_twice(batch: Any, context: Context) -> None:
        calls.append([row["n"] for row in batch])
        if context.attempt == 1:
            raise PartialFailure([batch[0], batch[0]])

    sums = run(names_twice, table([1, 2, 3]), **RETRIED)

    assert calls == [[1, 2, 3], [1]]
    assert sums["sent_rows"] == 3


def test_rows_may_be_named_by_numbers_of_numpy() -> None:
    dead: list[Any] = []

    def handler(batch: pa.RecordBatch) -> None:
        raise PartialFailure(np.flatnonzero(np.array(batch.column("n")) == 2))

    run(handler, table([1, 2, 3]), rows="arrow", dead_letters=dead.append)

    assert [[row["n"] for row in batch] for batch in dead] == [[2]]


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_that_would_end_the_process_or_its_task_fails_only_its_batch(
    error: type[BaseException], is_async: bool
) -> None:
    dead: list[Any] = []

    def plain(batch: list[Any]) -> None:
        if batch[0]["n"] == 1:
            raise error

    async def awaited(batch: list[Any]) -> None:
        plain(batch)

    sums = run(awaited if is_async else plain, table([1, 2]), most=1, dead_letters=dead.append)

    assert [[row["n"] for row in batch] for batch in dead] == [[1]]
    assert (sums["sent_rows"], sums["rejected_rows"]) == (1, 1)


def test_rows_whose_time_is_infinite_become_dead_letters_and_make_no_other_late(
    shared_redis: EmbeddedRedis,
) -> None:
    sent: list[tuple[float, bool]] = []
    dead: list[tuple[float, str]] = []

    def take(rows: list[Any], context: Context) -> None:
        sent.extend((row["time"], context.late) for row in rows)

    def take_dead(rows: list[Any], context: Context) -> None:
        dead.extend((row["time"], context.reason) for row in rows)

    sending = DeliveryOptions(handler=take, rows="dict", dead_letters=take_dead)
    for batch, times in ((1, [-math.inf, 1.0, 2.0, math.inf]), (2, [3.0])):
        rows = table(list(range(len(times)))).set_column(1, "time", pa.array(times))
        claim = claimed(shared_redis.url, batch=batch)
        job = TaskJob(sending, COLUMNS, Cut(1), "number", "orders", batch, claim)
        list(job.run([rows]))

    assert sent == [(1.0, False), (2.0, False), (3.0, False)]
    assert dead == [(-math.inf, "its time is -inf"), (math.inf, "its time is inf")]


def test_the_error_names_a_cost_that_fails() -> None:
    for cost, reason in (
        (lambda row: row["nothing"], r"its cost, a function of a row, has raised KeyError"),
        (lambda row: "much", "its cost is 'much', which is not a number"),
    ):
        with pytest.raises(UnusableRowsError, match=f"a row of subject 'a' in .*: {reason}"):
            run(lambda rows: None, table([1]), cost=cost)
