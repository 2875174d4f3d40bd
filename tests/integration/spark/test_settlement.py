"""Law Z in Spark: a handler settles the actual cost of its batch, or of parts of it, through its
context."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity.wait import wait_fixed

from dispatcher.outcomes import PartialFailure
from dispatcher.spark._rows.cutting import Cut
from dispatcher.spark._rows.groups import Columns
from dispatcher.spark._task.settlement import RowSettlements
from dispatcher.spark._task.sums import actual_of, cost_of, stored
from dispatcher.spark.context import Context
from limiters import ArgumentError, LimiterConfig
from limiters._costs import Costs
from limiters.embedded import EmbeddedRedis
from limiters.errors import SettlementError
from limiters.limits import InFlight, Limits, Rate
from tests.integration.spark.test_costs import rows, run
from tests.integration.spark.test_packs import Handler

PER = 1_200.0
"""Seconds: much longer than a test may take."""
TOKENS = Rate(100, per=PER, burst=100)
MANY = Limits(requests=Rate(1_000, per=PER, burst=1_000), tokens=TOKENS, calls=InFlight(2))
ROWS = rows(50)
"""A hundred rows, in batches of ten."""
Settle = Callable[[Any, Context], None]


def sent(redis: EmbeddedRedis, name: str, settle: Settle, **options: Any) -> Handler:
    """Send all rows, each with an estimate of a twentieth of all tokens: this ends in time only if
    settled tokens may be spent again."""
    handler = Handler(settle)
    limiter = LimiterConfig(
        url=redis.url, name=name, shared_capacity=MANY, lease_time=1.0, max_interval=0.1
    )
    costs = {"cost": {"tokens": 5}, "batch_cost": {"requests": 1, "calls": 1}}
    run(handler, ROWS, **{"limiter": limiter, **costs, **options})
    assert sorted({n for batch in handler.batches for n in batch}) == [row["n"] for row in ROWS]
    return handler


def each_subject(batch: list[Any], context: Context) -> None:
    for one in context.subjects:
        context.settle({"tokens": 9}, subject=one)
        context.settle({"tokens": 1}, subject=one.subject)  # the last one counts


def each_row(batch: list[Any], context: Context) -> None:
    for row in batch:
        context.settle({"tokens": 0.5}, rows=[row])


@pytest.mark.parametrize(
    ("name", "settle"),
    [
        ("all", lambda batch, context: context.settle({"tokens": 5})),
        ("subjects", each_subject),
        ("rows", each_row),
    ],
)
def test_z_capacity_that_a_handler_settles_may_be_spent_again(
    name: str, settle: Settle, shared_redis: EmbeddedRedis
) -> None:
    handler = sent(shared_redis, f"settled-{name}", settle)

    assert len(handler.calls) == 10


def test_z_numbers_can_be_settled_if_the_limit_has_one_dimension(
    shared_redis: EmbeddedRedis,
) -> None:
    limiter = LimiterConfig(
        url=shared_redis.url,
        name="numbers",
        shared_capacity=Limits(tokens=TOKENS),
        lease_time=1.0,
        max_interval=0.1,
    )

    def settle(batch: list[Any], context: Context) -> None:
        context.settle({"tokens": 3}, rows=batch[:5])
        context.settle(2, rows=batch[5:])

    sent(shared_redis, "one", settle, limiter=limiter, cost=5, batch_cost=0)


@pytest.mark.parametrize("is_async", [False, True])
def test_z_the_sums_have_the_charges_and_the_actual_costs(
    is_async: bool, shared_redis: EmbeddedRedis
) -> None:
    def settle(batch: list[Any], context: Context) -> None:
        first, *others = context.subjects
        context.settle({"tokens": 3}, subject=first)
        for one in others:
            context.settle({"tokens": 0}, subject=one)
        if context.attempt == 1 and batch[0]["n"] == 0:
            raise RuntimeError("this attempt counts, too")

    async def settle_async(batch: list[Any], context: Context) -> None:
        settle(batch, context)

    limiter = LimiterConfig(
        url=shared_redis.url, name="sums", shared_capacity=MANY, lease_time=1.0, max_interval=0.1
    )
    sums = run(
        settle_async if is_async else settle,
        ROWS,
        limiter=limiter,
        cost={"tokens": 5},
        batch_cost={"requests": 1, "calls": 1},
        retry=wait_fixed(0),
    )

    assert cost_of(sums) == {"requests": 11, "tokens": 11 * 50, "calls": 11}
    assert actual_of(sums) == {"requests": 11, "tokens": 11 * 3, "calls": 11}
    assert not any(name.startswith("settled") for name in stored(sums))


def test_z_rows_of_arrow_are_settled_by_their_numbers(shared_redis: EmbeddedRedis) -> None:
    found: list[int] = []

    def settle(batch: Any, context: Context) -> None:
        found.extend(batch.column("n").to_pylist())
        context.settle({"tokens": 5}, rows=range(batch.num_rows))

    limiter = LimiterConfig(
        url=shared_redis.url, name="arrow", shared_capacity=MANY, lease_time=1.0, max_interval=0.1
    )
    options: dict[str, Any] = {"cost": {"tokens": 5}, "batch_cost": {"calls": 1}}
    run(settle, ROWS, limiter=limiter, rows="arrow", **options)
    assert sorted(found) == [row["n"] for row in ROWS]


def test_z4_each_attempt_is_settled_by_itself(shared_redis: EmbeddedRedis) -> None:
    contexts: list[Context] = []

    def settle(batch: list[Any], context: Context) -> None:
        contexts.append(context)
        for row in batch[:4]:
            context.settle({"tokens": 0}, rows=[row])
        context.settle({"tokens": 1}, rows=batch[4:])
        if context.attempt == 1:
            raise RuntimeError("not the first time")

    handler = sent(shared_redis, "attempts", settle, retry=wait_fixed(0.01))

    assert len(handler.calls) == 20
    with pytest.raises(SettlementError, match="ended"):
        contexts[0].settle({"tokens": 1})


def overlapping(batch: list[Any], context: Context) -> None:
    context.settle({"tokens": 1}, rows=batch)
    context.settle({"tokens": 1}, rows=batch[:1])


WRONG: list[tuple[type[Exception], str, Settle]] = [
    (ArgumentError, "actual", lambda batch, context: context.settle({"tokens": -1})),
    (ArgumentError, "actual", lambda batch, context: context.settle({"tokens": float("nan")})),
    (ArgumentError, "actual must be of", lambda batch, context: context.settle({"bytes": 1})),
    (ArgumentError, "which dimension", lambda batch, context: context.settle(5)),
    (
        ArgumentError,
        "actual must be of",
        lambda batch, context: context.settle({"bytes": 1}, rows=batch),
    ),
    (
        SettlementError,
        "rows of this batch",
        lambda batch, context: context.settle({"tokens": 1}, rows=[dict(batch[0])]),
    ),
    (
        SettlementError,
        "'s' is none of context.subjects",
        lambda batch, context: context.settle({"tokens": 1}, subject="s"),
    ),
    (
        SettlementError,
        "no rows",
        lambda batch, context: context.settle({"tokens": 1}, rows=[]),
    ),
    (
        ArgumentError,
        "rows must be left out where subject is given",
        lambda batch, context: context.settle(
            {"tokens": 1}, subject=context.subjects[0], rows=batch[:1]
        ),
    ),
    (
        SettlementError,
        "row 0 of the batch was settled together with other rows",
        lambda batch, context: overlapping(batch, context),
    ),
]


@pytest.mark.parametrize(("kind", "message", "settle"), WRONG)
def test_z_a_wrong_settlement_is_refused_and_changes_nothing(
    kind: type[Exception], message: str, settle: Settle, shared_redis: EmbeddedRedis
) -> None:
    def tries(batch: list[Any], context: Context) -> None:
        with pytest.raises(kind, match=message):
            settle(batch, context)
        context.settle({"tokens": 5}, rows=batch)

    sent(shared_redis, "wrong", tries)


PACKS, SINGLE, LANE, UNORDERED, BUILT = "packs", "pack=False", "a lane", "no order", "built"
KINDS: dict[str, dict[str, Any]] = {
    PACKS: {},
    SINGLE: {"packed": False},
    LANE: {
        "packed": False,
        "columns": Columns(None, "time", subject="subject"),
        "cut": Cut(10, same_subject=False),
    },
    UNORDERED: {
        "packed": False,
        "columns": Columns(None, None),
        "cut": Cut(10, same_subject=False, in_order=False),
    },
    BUILT: {
        "packed": False,
        "columns": Columns("subject", "time", "end", messages="messages"),
        "cut": Cut(1, each=True),
    },
}
"""The arguments of the tasks of each kind of sink; `built` has those of EventTimeSink."""


def built(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each subject's rows as the messages of one batch."""
    subjects = dict.fromkeys(row["subject"] for row in given)
    return [
        {"subject": subject, "time": 0, "end": 1}
        | {"messages": [row for row in given if row["subject"] == subject]}
        for subject in subjects
    ]


APART = "context.subjects is empty: name them by rows"
WHOLE = "EventTimeSink has one cost.*leave rows out to settle the batch"


@pytest.mark.parametrize(
    ("kind", "by", "refused"),
    [
        (PACKS, "subject", ""),
        (PACKS, "rows", ""),
        (SINGLE, "subject", ""),
        (SINGLE, "rows", ""),
        (LANE, "subject", APART),
        (LANE, "rows", ""),
        (UNORDERED, "subject", APART),
        (UNORDERED, "rows", ""),
        (BUILT, "subject", ""),
        (BUILT, "rows", WHOLE),
    ],
)
def test_z_a_handler_settles_by_what_the_batches_of_its_sink_have(
    kind: str, by: str, refused: str, shared_redis: EmbeddedRedis
) -> None:
    given = rows(20, 4)
    taken: list[int] = []

    def settle(batch: list[Any], context: Context) -> None:
        taken.append(len(batch))
        if refused:
            with pytest.raises(SettlementError, match=refused):
                context.settle(
                    {"tokens": 0}, **{by: batch[0]["subject"] if by == "subject" else batch}
                )
            context.settle({"tokens": 0})
        elif by == "rows":
            context.settle({"tokens": 0}, rows=batch)
        else:
            for one in context.subjects:
                context.settle({"tokens": 0}, subject=one.subject)

    run(
        settle,
        built(given) if kind == BUILT else given,
        limiter=LimiterConfig(
            url=shared_redis.url,
            name=f"{kind}-{by}",
            shared_capacity=MANY,
            lease_time=1.0,
            max_interval=0.1,
        ),
        cost={"tokens": 9},
        batch_cost={"calls": 1},
        **KINDS[kind],
    )

    assert sum(taken) == len(given), "all of them, though the limit has tokens for eleven"


def test_z_what_is_left_of_a_built_batch_is_settled_as_all_of_it() -> None:
    left: list[int] = []

    def settle(batch: list[Any], context: Context) -> None:
        left.append(len(batch))
        context.settle({"tokens": 1}, subject=context.subjects[0])
        if context.attempt == 1:
            raise PartialFailure(batch[1:])

    run(settle, built(rows(3, 4)), cost={"tokens": 2}, retry=wait_fixed(0.01), **KINDS[BUILT])

    assert sorted(left) == [3, 3, 3, 4, 4, 4]


def test_without_a_limit_settling_is_checked_and_has_no_effect() -> None:
    def settle(batch: list[Any], context: Context) -> None:
        context.settle({"tokens": 5})
        with pytest.raises(ArgumentError, match="actual"):
            context.settle(5)

    handler = Handler(settle)
    run(handler, ROWS, cost={"tokens": 5})
    assert len(handler.calls) == 10


def test_a_context_that_was_pickled_has_the_facts_but_cannot_settle() -> None:
    handler = Handler()
    run(handler, ROWS, cost=1)
    for context, _ in handler.calls:
        again: Context = pickle.loads(pickle.dumps(context))
        assert (again.key, again.subjects) == (context.key, context.subjects)
        with pytest.raises(SettlementError, match="belongs to no call"):
            again.settle(5)


parts = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=8)


@given(st.lists(st.integers(0, 9), min_size=10, max_size=10), parts, st.integers(0, 5))
def test_z3_the_total_is_the_charge_with_the_actual_cost_of_each_part(
    each: list[int], settled: list[tuple[int, int]], batch_cost: int
) -> None:
    def estimate(places: Any) -> float:
        return float(sum(each[place] for place in places))

    numbers = RowSettlements(sum(each) + batch_cost, estimate)
    named = RowSettlements(
        Costs({"a": sum(each) + batch_cost, "b": 7}), lambda places: Costs({"a": estimate(places)})
    )
    truth: dict[int, int] = {}
    for pair, actual in settled:
        rows_of_it = [2 * pair, 2 * pair + 1]
        truth[pair] = actual
        expected = batch_cost + sum(
            truth.get(one, each[2 * one] + each[2 * one + 1]) for one in range(5)
        )
        assert numbers.settle(rows_of_it, actual) == expected
        assert named.settle(rows_of_it, {"a": actual}) == {"a": expected}
