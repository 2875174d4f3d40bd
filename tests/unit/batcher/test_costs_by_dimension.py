"""A Batcher under a limit of several dimensions: which costs it accepts, its target, what it
charges and what it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from tenacity import wait_fixed

from dispatcher import (
    ArgumentError,
    Batcher,
    BatcherStoppedError,
    Operation,
    TooExpensiveError,
    Watcher,
)
from limiters import InFlight, Limits, ProvisionedResource, Rate
from limiters._costs import Costs
from limiters.testing import ManualClock
from tests.crank import Crank, batchable, ends, ignore

API = Limits(requests=Rate(60, per=6, also=[Rate(10, per=1)]), tokens=Rate(9_000, per=6))
CALLS = Limits(tokens=Rate(1_000), calls=InFlight(2))


def under(limits: Limits | float, **options: Any) -> Crank:
    clock = ManualClock()
    return Crank(limiter=ProvisionedResource(limits, clock=clock), clock=clock, **options)


def ignored(batch: list[Operation], error: BaseException) -> None:
    pass


def spent(crank: Crank) -> Any:
    limiter = crank.engine.limiter
    assert isinstance(limiter, ProvisionedResource)
    return limiter.standing().spent_reserved


# Which costs are accepted (law V7).

Enqueue = Callable[[Batcher, Operation], None]


def by_one(batcher: Batcher, operation: Operation) -> None:
    batcher.enqueue(operation)


def by_many(batcher: Batcher, operation: Operation) -> None:
    fine = Operation(operation.watcher, {"tokens": 1}, "fine", batchable=True)
    batcher.enqueue_many([fine, operation])


def by_coroutine(batcher: Batcher, operation: Operation) -> None:
    asyncio.run(batcher.enqueue_async(operation))


ways = pytest.mark.parametrize("enqueue", [by_one, by_many, by_coroutine])


@ways
@pytest.mark.parametrize(
    ("cost", "error", "says"),
    [
        ({"token": 5}, ArgumentError, "requests and tokens alone, not {'token': 5}"),
        (5, ArgumentError, "of which dimension it is, not 5; as in {'requests': 5}"),
        ({"tokens": 9_001}, TooExpensiveError, "costs 9001 of tokens, more than .* of 9000 of tok"),
        ({"requests": 11}, TooExpensiveError, "costs 11 of requests, more than .* of 10 of req"),
    ],
)
def test_v7_a_cost_that_could_never_be_granted_is_refused_by_its_dimension(
    enqueue: Enqueue, cost: Any, error: type[Exception], says: str
) -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(API))
    operation = Operation(Watcher(ignore), cost, None)
    with pytest.raises(error, match=says):
        enqueue(batcher, operation)
    assert (batcher.needs_capacity, batcher.operations_in_buffer) == (Costs(), 0)
    assert operation._where is None
    assert operation.cost == cost


@ways
def test_v7_if_an_operation_and_its_batch_cost_too_much_together_the_error_names_both(
    enqueue: Enqueue,
) -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(API))
    watcher = Watcher(ignore, batch_cost={"requests": 1, "tokens": 100})
    says = "costs 8901 of tokens and its batch 100 of tokens in addition, more than .* of 9000 of"
    with pytest.raises(TooExpensiveError, match=says) as caught:
        enqueue(batcher, Operation(watcher, {"tokens": 8_901}, None))
    assert caught.value.dimension == "tokens"
    enqueue(batcher, Operation(watcher, {"tokens": 8_900}, None))


@pytest.mark.parametrize("batch_cost", [{"request": 1}, 1])
def test_v7_a_batch_cost_in_a_dimension_without_a_limit_is_refused(batch_cost: Any) -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(API))
    watcher = Watcher(ignore, batch_cost=batch_cost)
    with pytest.raises(ArgumentError, match=r"^batch_cost"):
        batcher.enqueue(Operation(watcher, {"tokens": 1}, None))
    assert batcher.needs_capacity == Costs()


def test_v7_the_sum_of_a_cost_and_a_batch_cost_in_numbers_must_fit_the_limit() -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(100))
    plain, dear = Watcher(ignore), Watcher(ignore, batch_cost=10)
    batcher.enqueue(Operation(plain, 95, None))
    batcher.enqueue_many([Operation(plain, 95, None), Operation(dear, 90, None)])
    for _ in range(2):  # the second time the watcher is registered
        with pytest.raises(
            TooExpensiveError, match="costs 95 and its batch 10 in addition, more than"
        ):
            batcher.enqueue(Operation(dear, 95, None))
        with pytest.raises(
            TooExpensiveError, match="costs 95 and its batch 10 in addition, more than"
        ):
            batcher.enqueue_many([Operation(plain, 95, None), Operation(dear, 95, None)])
    assert batcher.needs_capacity == 280


def test_a_cost_in_the_only_dimension_of_a_limit_becomes_a_number() -> None:
    crank = under(Limits(tokens=Rate(1_000)))
    watcher = Watcher(ignore, batch_cost={"tokens": 5})
    operation = Operation(watcher, {"tokens": 12}, None)
    crank.enqueue(operation, Operation(watcher, 8, None))
    crank.entrance.enqueue_many([Operation(watcher, {"tokens": 20}, None)])
    assert operation.cost == 12
    assert crank.engine.open_work.read()[0] == 40
    crank.run(1, at_turn=ends(crank))
    assert spent(crank) == 40 + 3 * 5


def test_a_fraction_of_a_slot_is_refused() -> None:
    for limits in (CALLS, Limits(calls=InFlight(2))):
        batcher = Batcher(rate_limiter=ProvisionedResource(limits))
        with pytest.raises(ArgumentError, match="be a whole number"):
            batcher.enqueue(Operation(Watcher(ignore), {"calls": 0.5}, None))
    with pytest.raises(ArgumentError, match="be a whole number"):
        batcher.enqueue(Operation(Watcher(ignore), 0.5, None))


def test_without_a_limiter_costs_are_numbers() -> None:
    batcher = Batcher()
    with pytest.raises(ArgumentError, match="be a number without a rate_limiter"):
        batcher.enqueue(Operation(Watcher(ignore), {"tokens": 1}, None))
    with pytest.raises(ArgumentError, match=r"^batch_cost .* be a number without a rate_limiter"):
        batcher.enqueue(Operation(Watcher(ignore, batch_cost={"requests": 1}), 1, None))


@pytest.mark.parametrize("cost", [-1, {"tokens": -1}, {"": 1}, {"tokens": 2**100}, {3: 1}, "4"])
def test_impossible_costs_are_refused_immediately(cost: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^cost"):
        Operation(Watcher(ignore), cost, None)
    if cost != {"tokens": 2**100}:
        with pytest.raises(ArgumentError, match=r"^batch_cost"):
            Watcher(ignore, batch_cost=cost)


@ways
def test_a_stopped_batcher_accepts_no_cost_in_dimensions_either(enqueue: Enqueue) -> None:
    batcher = Batcher(rate_limiter=ProvisionedResource(API))
    batcher.stop()
    with pytest.raises(BatcherStoppedError):
        enqueue(batcher, Operation(Watcher(ignore), {"tokens": 1}, None))


def test_c9_an_operation_that_no_longer_fits_fails_with_the_name_of_the_dimension() -> None:
    crank = under(API)
    watcher = Watcher(ignore, batch_cost={"requests": 1}, on_failure=ignored)
    crank.enqueue(*(Operation(watcher, {"tokens": n}, n) for n in (9_000, 8_000, 4_000)))
    assert isinstance(crank.engine.limiter, ProvisionedResource)
    crank.engine.limiter.set_capacity({"tokens": 5_000})
    crank.post(crank.engine.look)
    failed, _ = crank.calls
    operations, error = failed.job.arguments
    assert [one.payload for one in operations] == [9_000, 8_000]
    assert isinstance(error, TooExpensiveError)
    assert error.dimension == "tokens"
    assert crank.engine.open_work.read()[0] == {"tokens": 4_000}


# The target of the Batcher (law B3).


def test_b3_the_target_is_the_cost_of_operations_by_dimension_without_batch_costs() -> None:
    crank = under(API)
    watcher = Watcher(ignore, max_batch_size=2, batch_cost={"requests": 1}, retry=wait_fixed(1))
    open_work = crank.engine.open_work
    assert open_work.read()[0] == Costs()
    crank.entrance.enqueue_many(
        [Operation(watcher, {"tokens": 10 + n}, n, batchable=True) for n in range(3)]
    )
    assert open_work.read()[0] == {"tokens": 33}
    crank.run(0.2)
    assert open_work.read() == ({"tokens": 33}, 2, 0)
    first, second = crank.calls
    first.end()
    second.end(ValueError())
    crank.turn()
    assert open_work.read() == ({"tokens": 12}, 0, 1)
    crank.run(3, at_turn=ends(crank))
    assert open_work.read() == (Costs(), 0, 0)


def test_b3_the_audit_repairs_a_target_in_the_dimension_that_is_wrong() -> None:
    crank = under(API, audit_interval=1, max_operation_time=0.5)
    crank.run(2)
    assert set(crank.names()) == {"audit-pass"}
    crank.engine.open_work.target = Costs({"tokens": 7})
    crank.run(1)
    [failed] = [event for event in crank.events if event.name == "audit-fail"]
    assert failed.message == "the target was tokens 7 and is set to 0"
    assert crank.engine.open_work.read()[0] == Costs()


# What a batch is charged (law V3).


def test_v3_each_batch_pays_its_cost_once_and_a_retry_pays_it_again() -> None:
    crank = under(API)
    watcher = Watcher(ignore, max_batch_size=3, batch_cost={"requests": 1}, retry=wait_fixed(1))
    crank.enqueue(*batchable(watcher, *range(6), cost={"tokens": 100}))
    crank.run(0.5)
    assert spent(crank) == {"requests": 2, "tokens": 600}
    crank.calls[0].end(ValueError())
    crank.run(3, at_turn=ends(crank))
    assert spent(crank) == {"requests": 3, "tokens": 900}


def test_v3_a_batch_of_operations_that_cost_nothing_waits_for_its_own_cost() -> None:
    crank = under(Limits(requests=Rate(10), tokens=Rate(1_000)))
    watcher = Watcher(ignore, max_batch_size=5, batch_cost={"requests": 1})
    free = Watcher(ignore)
    crank.entrance.enqueue_many(batchable(watcher, *range(200), cost=0))
    crank.enqueue(Operation(free, 0, "free"), Operation(free, {"tokens": 0}, "free"))
    crank.run(0.05, at_turn=ends(crank))
    assert [batch[0].payload for _, batch in crank.raised].count("free") == 2
    crank.run(2, at_turn=ends(crank))
    assert 19 <= spent(crank)["requests"] <= 21
    assert all(len(batch) == 5 for _, batch in crank.raised if batch[0].payload != "free")


def test_v3_under_a_scarce_limit_batches_wait_until_they_are_worth_their_own_cost() -> None:
    crank = under(100)
    watcher = Watcher(ignore, max_batch_size=50, batch_cost=20)
    crank.enqueue(*batchable(watcher, *range(5_000)))
    crank.run(20, at_turn=ends(crank))
    sizes = [len(batch) for _, batch in crank.raised]
    # One batch of 50, or two of 30, fit in a second; batches of a burst's worth would be of 1.
    assert min(sizes) >= 30
    assert 0.95 * 60 <= sum(sizes) / 20 <= 60 * 1.1


def test_v2_a_batch_that_lacks_one_dimension_holds_nothing_of_another() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(Limits(a=Rate(10), b=Rate(10)), clock=clock)
    waits, goes = (Crank(limiter=limiter, clock=clock) for _ in range(2))
    watcher = Watcher(ignore)
    waits.enqueue(Operation(watcher, {"a": 10}, None))
    waits.run(0.2, at_turn=ends(waits))
    waits.enqueue(Operation(watcher, {"a": 10, "b": 10}, "lacks a"))
    waits.engine.demand.nothing()  # nor a turn
    goes.enqueue(Operation(watcher, {"b": 10}, "has b"))
    goes.run(0.2)
    assert [batch[0].payload for _, batch in goes.raised] == ["has b"]


# Calls in flight (law N4).


def test_n_a_slot_is_free_when_its_callback_has_returned_and_serves_the_next_call() -> None:
    crank = under(CALLS)
    watcher = Watcher(ignore, batch_cost={"calls": 1})
    crank.enqueue(*(Operation(watcher, {"tokens": 1}, n) for n in range(4)))
    crank.run(5)
    assert len(crank.calls) == 2
    crank.calls[0].end()
    crank.turn()
    assert [call.payloads for call in crank.calls] == [[1], [2]]
    crank.calls[0].end(ValueError())
    crank.turn()
    assert [call.payloads for call in crank.calls] == [[2], [3]]


def test_n_a_slot_that_another_batcher_frees_wakes_the_one_that_waits() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(CALLS, clock=clock)
    one, other = (Crank(limiter=limiter, clock=clock) for _ in range(2))
    limiter.add_wake_up(partial(other.engine.post, other.engine.look))
    watcher = Watcher(ignore, batch_cost={"calls": 1})
    one.enqueue(*(Operation(watcher, {"tokens": 1}, n) for n in range(2)))
    one.turn()
    other.enqueue(Operation(watcher, {"tokens": 1}, "waits"))
    other.turn()
    assert not other.calls
    one.calls[0].end()
    assert other.mailbox
    other.turn()
    assert [call.payloads for call in other.calls] == [["waits"]]


@pytest.mark.parametrize("strict", [True, False])
def test_n4_an_abandoned_callback_keeps_its_slot_until_it_returns_if_the_limit_is_strict(
    strict: bool,
) -> None:
    crank = under(Limits(tokens=Rate(1_000), calls=InFlight(1, strict=strict)))
    watcher = Watcher(ignore, batch_cost={"calls": 1}, max_operation_time=2)
    crank.enqueue(*(Operation(watcher, {"tokens": 1}, n) for n in range(2)))
    crank.run(3)
    assert "batch-abandoned" in crank.names()
    assert len(crank.calls) == (1 if strict else 2)
    crank.calls[0].end()
    crank.run(1)
    assert len(crank.raised) == 2


def test_b4_a_batch_for_which_there_is_no_thread_takes_no_slot() -> None:
    crank = under(CALLS)
    watcher = Watcher(ignore, batch_cost={"calls": 1})
    crank.runners.refusing = True
    crank.enqueue(Operation(watcher, {"tokens": 1}, None))
    crank.turn()
    assert spent(crank) == Costs()
    crank.runners.refusing = False
    crank.run(1)
    assert len(crank.calls) == 1


# What the limiter is asked for.


def asked(crank: Crank) -> list[Any]:
    return [event.metadata for event in crank.events if event.name == "request"]


def test_c5_the_demand_includes_the_batch_costs() -> None:
    crank = under(API, emit_request=True)
    watcher = Watcher(ignore, max_batch_size=4, batch_cost={"requests": 1})
    assert isinstance(crank.engine.limiter, ProvisionedResource)
    crank.engine.limiter.set_capacity({"tokens": 100})
    crank.enqueue(*batchable(watcher, *range(10), cost={"tokens": 100}))
    crank.turn()
    assert asked(crank)[-1] == {"tokens": 1_000, "requests": 3}
    crank.post(crank.engine.pausing.begin, 1)
    assert asked(crank)[-1] == Costs()


def test_c5_slots_are_requested_only_for_calls_that_could_begin_now() -> None:
    crank = under(
        Limits(tokens=Rate(100), calls=InFlight(50)), emit_request=True, max_concurrent_batches=4
    )
    watcher = Watcher(ignore, max_batch_size=1, batch_cost={"calls": 1})
    crank.enqueue(*batchable(watcher, *range(30), cost={"tokens": 100}))
    crank.run(0.5)
    assert asked(crank)[0] == {"tokens": 400, "calls": 4}
    crank.run(1.5)
    assert len(crank.calls) == 2
    assert asked(crank)[-1] == {"tokens": 200, "calls": 2}
