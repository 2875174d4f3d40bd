"""Calls that are counted take a slot each, and last no longer than the limit allows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from dispatcher import ArgumentError, Batcher, Operation, Watcher
from limiters import InFlight, Limits, ProvisionedResource, Rate
from tests.crank import ignore

CALLS = Limits(tokens=Rate(1_000), calls=InFlight(2))
READS_AND_WRITES = Limits(tokens=Rate(1_000), reads=InFlight(9), writes=InFlight(2))

Enqueue = Callable[[Batcher, Operation], None]


def by_one(batcher: Batcher, operation: Operation) -> None:
    batcher.enqueue(operation)


def by_many(batcher: Batcher, operation: Operation) -> None:
    batcher.enqueue_many([operation])


def by_coroutine(batcher: Batcher, operation: Operation) -> None:
    asyncio.run(batcher.enqueue_async(operation))


ways = pytest.mark.parametrize("enqueue", [by_one, by_many, by_coroutine])


@ways
@pytest.mark.parametrize("batch_cost", [0, {"tokens": 1}])
def test_n1_a_batch_that_would_take_no_slot_is_refused_with_the_name_of_the_dimension(
    enqueue: Enqueue, batch_cost: Any
) -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(CALLS))
    for _ in range(2):  # the first of a watcher, and those that follow
        operation = Operation(Watcher(ignore, batch_cost=batch_cost), {"tokens": 5}, None)
        with pytest.raises(ArgumentError) as error:
            enqueue(batcher, operation)
        assert "cost must name calls, of which each call takes one or more, not {'tokens'" in str(
            error.value
        )
        assert "as in Watcher(..., batch_cost={'calls': 1})" in str(error.value)
    assert batcher.needs_capacity == 0


@ways
def test_a_batch_may_take_slots_of_any_dimension_that_counts_calls(enqueue: Enqueue) -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(READS_AND_WRITES))
    enqueue(batcher, Operation(Watcher(ignore), {"tokens": 5, "writes": 1}, None))
    enqueue(batcher, Operation(Watcher(ignore, batch_cost={"reads": 1}), {"tokens": 5}, None))
    with pytest.raises(ArgumentError, match="cost must name reads or writes, of which each"):
        enqueue(batcher, Operation(Watcher(ignore), {"tokens": 5}, None))


def test_an_operation_that_costs_nothing_takes_no_slot() -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(CALLS))
    for cost in (0, {}, {"tokens": 0}):
        batcher.enqueue(Operation(Watcher(ignore), cost, None))


def test_a_reservation_has_to_take_a_slot() -> None:
    limiter = ProvisionedResource(CALLS)
    with pytest.raises(ArgumentError, match="add them to the cost; what"):
        limiter.reserve({"tokens": 5})
    with limiter:
        assert limiter.acquire({"tokens": 5}, timeout=5), "what is no call is no slot"
        with limiter.reserve({"tokens": 5, "calls": 1}, timeout=5):
            pass


@pytest.mark.parametrize(
    "limits",
    [
        Limits(tokens=Rate(1_000), calls=InFlight(2, max_operation_time=30)),
        Limits(tokens=Rate(1_000, counts="end", max_operation_time=30)),
        Limits(calls=InFlight(2, max_operation_time=30)),
    ],
)
def test_n1_callbacks_may_not_last_longer_than_the_limit_allows(limits: Limits) -> None:
    limiter = ProvisionedResource(limits)
    with pytest.raises(ArgumentError) as error:
        Batcher(rate_limiter=limiter)
    assert "max_operation_time must be at most 30 seconds, the max_operation_time of" in str(
        error.value
    )
    batcher = Batcher(rate_limiter=limiter, max_operation_time=30)
    cost = dict.fromkeys(limits.dimensions, 1)
    batcher.enqueue(Operation(Watcher(ignore, max_operation_time=30), cost, None))
    longer = Watcher(ignore, max_operation_time=31)
    for enqueue in (by_one, by_many, by_coroutine):
        with pytest.raises(ArgumentError, match="max_operation_time must be at most 30 seconds"):
            enqueue(batcher, Operation(longer, cost, None))


def test_calls_that_nothing_counts_may_last_as_long_as_they_like() -> None:
    limits = Limits(tokens=Rate(1_000), writes=Rate(9, counts="end"))
    batcher = Batcher(rate_limiter=ProvisionedResource(limits))
    longer = Watcher(ignore, max_operation_time=3_600)
    batcher.enqueue(Operation(longer, {"tokens": 1}, None))
    with pytest.raises(ArgumentError, match="max_operation_time of writes=Rate"):
        batcher.enqueue(Operation(longer, {"tokens": 1, "writes": 1}, None))
    numbers = Batcher(rate_limiter=ProvisionedResource(5), max_operation_time=3_600)
    numbers.enqueue(Operation(Watcher(ignore, max_operation_time=7_200), 1, None))
