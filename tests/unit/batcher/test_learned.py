"""Law Z6: learned costs are a percentile by kind, use bounded memory, and are high at first."""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher import (
    Batcher,
    Learned,
    Operation,
    Retry,
    Throttled,
    TooExpensiveError,
    Watcher,
    settle,
)
from dispatcher._core.queues import settlement
from dispatcher.learned import GROWTH, MOST_BUCKETS, CostHistogram
from dispatcher.testing import InlineBatcher, ManualClock
from limiters import ArgumentError, Limits, ProvisionedResource, Rate
from tests.examples import examples


def ignore(batch: list[Operation]) -> None:
    pass


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.floats(1e-6, 1e12), min_size=1, max_size=500),
    st.floats(1, 100),
)
def test_z6_a_percentile_is_never_too_low_and_at_most_slightly_too_high(
    costs: list[float], percentile: float
) -> None:
    seen = CostHistogram()
    for cost in costs:
        seen.note(cost)
    ordered = sorted(costs)
    rank = min(len(ordered) - 1, max(0, -int(-len(ordered) * percentile // 100) - 1))
    exact = ordered[rank]
    assert exact * (1 - 1e-6) <= seen.percentile(percentile) or percentile < 100 / len(costs)
    assert seen.percentile(percentile) in costs, "no operation is refused for what none has cost"
    above = ordered[min(len(ordered) - 1, rank + 1)]
    low = len(set(costs)) > MOST_BUCKETS
    assert low or seen.percentile(percentile) <= above * GROWTH * (1 + 1e-6)


def test_z6_memory_is_bounded_for_any_costs_and_kinds() -> None:
    chance = random.Random(1)
    seen = CostHistogram()
    for _ in range(20_000):
        seen.note(10 ** chance.uniform(-200, 100))
    assert len(seen._weights) <= MOST_BUCKETS
    cost = Learned(100, by=lambda number: number, kinds=50)
    for number in range(5_000):
        cost.learn(number, 1.0)
    assert [one.kind for one in cost.known()] == list(range(4_999, 4_949, -1))


def test_z6_the_estimate_of_a_kind_stays_high_until_enough_was_settled() -> None:
    cost = Learned(4_500, by=lambda payload: payload["model"])
    small, large = {"model": "small"}, {"model": "large"}
    for settled in range(20):
        assert cost.estimate(small) == 4_500, settled
        cost.learn("small", 1_000)
    assert 1_000 <= cost.estimate(small) <= 1_000 * GROWTH
    assert cost.estimate(large) == 4_500
    assert [(one.kind, one.settled, one.cold) for one in cost.known()] == [("small", 20, False)]


def test_z6_the_estimate_follows_costs_that_change() -> None:
    cost = Learned(100)
    for _ in range(5_000):
        cost.learn(None, 10)
    for _ in range(5_000):
        cost.learn(None, 50)
    assert cost.estimate() == pytest.approx(50, rel=0.06)
    for _ in range(30_000):
        cost.learn(None, 10)
    assert cost.estimate() == pytest.approx(10, rel=0.06)


def test_z6_the_least_recently_used_kind_is_forgotten() -> None:
    cost = Learned(100, by=str, kinds=2)
    for kind in ("a", "b"):
        for _ in range(20):
            cost.learn(kind, 1)
    assert cost.estimate("a") < 2, "used now"
    cost.learn("c", 1)
    assert cost.estimate("b") == 100
    assert cost.estimate("a") < 2


def run(cost: Any, answer: Any, number: int = 30, **terms: Any) -> list[Any]:
    """Run so many operations one after the other, and return their estimates."""
    estimates = []
    watcher = Watcher(answer, **terms)
    with InlineBatcher() as batcher:
        for _ in range(number):
            operation = Operation(watcher, cost, None)
            estimates.append(operation.cost)
            batcher.enqueue(operation)
            batcher.drain()
    return estimates


def test_estimates_learn_from_settled_operations() -> None:
    estimates = run(Learned(500), lambda batch: batch[0].settle(100))
    assert estimates[:20] == [500] * 20
    assert estimates[20:] == [pytest.approx(100, rel=0.06)] * 10


def test_estimates_learn_from_a_batch_settled_as_a_whole_without_its_batch_cost() -> None:
    estimates = run(Learned(500), lambda batch: settle(batch, 130), batch_cost=30)
    assert estimates[-1] == pytest.approx(100, rel=0.06)


def test_estimates_learn_nothing_from_failed_or_refused_operations() -> None:
    cost = Learned(500)

    def answer(batch: list[Operation]) -> None:
        batch[0].settle(1)
        raise (Throttled(charged=False) if batch[0].attempt == 1 else Retry())

    run(cost, answer, number=3, max_attempts=2)
    assert cost.known() == []


def test_dimensions_that_are_not_settled_keep_their_start() -> None:
    cost = Learned({"tokens": 4_500, "requests": 1})
    for _ in range(20):
        cost.learn(None, {"tokens": 1_000})
    estimate: Any = cost.estimate()
    assert estimate["requests"] == 1
    assert estimate["tokens"] == pytest.approx(1_000, rel=0.06)


def learning_batches(clock: ManualClock, watcher: Watcher, *costs: Any) -> None:
    """Thirty batches of operations with these costs, on a limit of one and of two dimensions."""
    limits = Limits(tokens=Rate(10_000, burst=10_000), requests=Rate(100, burst=100))
    limiter = ProvisionedResource(limits, clock=clock)
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        for _ in range(30):
            batcher.enqueue_many([Operation(watcher, cost, 0, batchable=True) for cost in costs])
            batcher.turn(2)


def test_a_batch_cost_is_learned_from_what_is_not_the_cost_of_operations() -> None:
    """Batches are charged by the estimate that they began with."""
    learned = Learned({"tokens": 500, "requests": 1})
    charged = []

    def answer(batch: list[Operation]) -> None:
        assert batch[0]._where is not None
        charged.append(batch[0]._where.whole_cost["tokens"])  # type: ignore[union-attr, index]
        settle(batch, {"tokens": 130})

    watcher = Watcher(answer, batch_cost=learned, max_batch_size=2)
    learning_batches(ManualClock(), watcher, {"tokens": 40}, {"tokens": 60})
    assert charged == [600] * 20 + [130] * 10
    assert learned.estimate() == watcher.batch_cost == {"tokens": 30, "requests": 1}


def test_a_batch_and_its_operations_learn_their_shares_in_proportion() -> None:
    of_batch, of_operation = Learned({"tokens": 300}), Learned({"tokens": 100})
    watcher = Watcher(
        lambda batch: settle(batch, {"tokens": 210}), batch_cost=of_batch, max_batch_size=2
    )
    learning_batches(ManualClock(), watcher, of_operation, {"tokens": 10})
    assert of_batch.estimate() == {"tokens": 150}
    assert of_operation.estimate() == {"tokens": 50}


@pytest.mark.parametrize("batch_costs", [lambda: 0, lambda: 3, lambda: Learned(2)])
@pytest.mark.parametrize("costs", [lambda: 4, lambda: Learned(4)])
@pytest.mark.parametrize("by_itself", [True, False])
def test_no_learned_estimate_is_more_than_the_limit_could_ever_grant(
    costs: Callable[[], Any], batch_costs: Callable[[], Any], by_itself: bool
) -> None:
    """It would be refused for good, and so never be corrected."""
    cost = costs()
    answers = iter([500] * 30 + [5] * 90)
    started = []

    def answer(batch: list[Operation]) -> None:
        started.append(batch)
        if by_itself:
            batch[0].settle(next(answers))
        else:
            settle(batch, next(answers))

    clock = ManualClock()
    watcher = Watcher(answer, batch_cost=batch_costs(), max_batch_size=1)
    with InlineBatcher(clock=clock, rate_limiter=ProvisionedResource(10, clock=clock)) as batcher:
        for _ in range(120):
            batcher.enqueue(Operation(watcher, cost, None))
            batcher.turn(100)
    assert len(started) == 120


@pytest.mark.parametrize("of_batch", [False, True])
def test_a_limit_that_is_lowered_below_what_was_learned_refuses_nothing_for_good(
    of_batch: bool,
) -> None:
    clock, learned, paid, went = ManualClock(), Learned(5), 90, []

    def answer(batch: list[Operation]) -> None:
        went.append(batch)
        settle(batch, paid)

    watcher = Watcher(answer, batch_cost=learned if of_batch else 0)
    limiter = ProvisionedResource(Limits(tokens=Rate(100)), clock=clock)
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        for count in range(60):
            if count == 30:
                limiter.set_capacity({"tokens": 20})
                paid = 15
                batcher.turn(5)
            batcher.enqueue(Operation(watcher, 1 if of_batch else learned, None))
            batcher.turn(60)
    assert len(went) == 60


def test_a_learned_cost_of_two_limits_is_at_most_what_each_can_grant() -> None:
    clock, learned = ManualClock(), Learned(5)
    went: list[Operation] = []
    of_large = Watcher(lambda batch: settle(batch, 90))
    of_small = Watcher(went.extend)
    large, small = (ProvisionedResource(capacity, clock=clock) for capacity in (100, 20))
    with (
        InlineBatcher(clock=clock, rate_limiter=large) as first,
        InlineBatcher(clock=clock, rate_limiter=small) as second,
    ):
        for _ in range(30):
            first.enqueue(Operation(of_large, learned, None))
            first.turn(5)
        second.enqueue(Operation(of_small, learned, None))
        second.turn(5)
    assert len(went) == 1


def test_a_batch_cost_that_is_learned_is_checked_as_any_other() -> None:
    with pytest.raises(ArgumentError, match="batch_cost must be Learned without `by`"):
        Watcher(ignore, batch_cost=Learned(5, by=len))
    limiter = ProvisionedResource(Limits(tokens=Rate(10), requests=Rate(5)))
    for start, says in (
        ({"bytes": 1}, "batch_cost must be of tokens and requests alone"),
        (1, "batch_cost must say of which dimension it is"),
        ({"tokens": 11}, "its batch costs 11 of tokens, more than the limiter's max_capacity of 1"),
    ):
        watcher = Watcher(ignore, batch_cost=Learned(start))
        with pytest.raises((ArgumentError, TooExpensiveError), match=says):
            Batcher(rate_limiter=limiter).enqueue(Operation(watcher, {"requests": 1}, 0))


def test_free_answers_teach_nothing_and_later_ones_that_cost_are_seen() -> None:
    """An estimate of nothing would never wait, and could not be settled above itself."""
    cost = Learned(100, percentile=50)
    answers = iter([0] * 40 + [900] * 40)
    estimates = run(cost, lambda batch: batch[0].settle(next(answers)), number=80)
    assert estimates[:50] == [100] * 50
    assert estimates[-1] == 900
    assert [(one.settled, one.cold) for one in cost.known()] == [(80, False)]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.sampled_from([0, 1e-300, 1e-12, 1, 900]) | st.floats(0, 1e99), max_size=60))
def test_no_estimate_is_nothing_whatever_was_settled(costs: list[float]) -> None:
    cost = Learned({"tokens": 4_500, "images": 3})
    for one in costs:
        cost.learn(None, {"tokens": one, "images": 0})
    estimate: Any = cost.estimate()
    assert estimate["tokens"] >= 4.5
    assert estimate["images"] == 3


def test_an_estimate_is_not_rounded_up_beyond_what_the_limit_can_grant() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(1_000, clock=clock)
    cost = Learned(1_000)
    watcher = Watcher(lambda batch: batch[0].settle(990) if batch else None)
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        for _ in range(30):
            batcher.enqueue(Operation(watcher, cost, None))
            batcher.turn(2)
    assert cost.estimate() == 990


def test_a_start_by_dimension_learns_from_a_limit_of_one_dimension() -> None:
    """Costs are numbers there."""
    clock = ManualClock()
    limiter = ProvisionedResource(Limits(tokens=Rate(10_000)), clock=clock)
    cost = Learned({"tokens": 500})
    watcher = Watcher(lambda batch: batch[0].settle(100) if batch else None)
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        for _ in range(30):
            batcher.enqueue(Operation(watcher, cost, None))
            batcher.turn(1)
    assert cost.estimate() == {"tokens": 100}


def test_a_settlement_of_another_dimension_teaches_only_those_that_are_learned() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(Limits(tokens=Rate(10_000), requests=Rate(100)), clock=clock)
    cost = Learned({"tokens": 500})
    watcher = Watcher(
        lambda batch: settle(batch, {"tokens": 100, "requests": 2}), batch_cost={"requests": 1}
    )
    with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
        for _ in range(30):
            batcher.enqueue(Operation(watcher, cost, None))
            batcher.turn(1)
    assert cost.estimate() == {"tokens": 100}


@pytest.mark.parametrize(
    ("start", "actual", "says"),
    [
        (5, float("nan"), "actual must be finite, not nan"),
        (5, -3, "actual must be zero or more, not -3"),
        (5, float("inf"), "actual must be finite, not inf"),
        (5, "7", "actual must be a number, or a mapping such as"),
        (5, None, "actual must be a number, or a mapping such as {'tokens': 812}, not None"),
        (5, True, "actual must be a number, or a mapping such as {'tokens': 812}, not True"),
        (5, {"tokens": 3}, "actual must be of the dimensions of start=5 alone, not {'tokens': 3}"),
        ({"tokens": 5}, 3, "actual must be by dimension, as start={'tokens': 5} is, not 3"),
        ({"tokens": 5}, {"x": 3}, "be of the dimensions of start={'tokens': 5} alone"),
        ({"tokens": 5}, {"token": 3}, "alone, not {'token': 3}; did you mean tokens?"),
        ({"tokens": 5}, {"tokens": -3}, "actual['tokens'] must be zero or more, not -3"),
        ({"tokens": 5, "x": 1}, {"tokens": 3, "x": float("nan")}, "actual['x'] must be finite"),
    ],
)
def test_what_cannot_have_been_paid_is_refused_and_teaches_nothing(
    start: Any, actual: Any, says: str
) -> None:
    cost = Learned(start)
    for kind in (None, "new"):
        with pytest.raises(ArgumentError) as error:
            cost.learn(kind, actual)
        assert says in str(error.value)
    assert cost.known() == []
    assert cost.estimate() == start


def test_a_kind_that_cannot_be_a_key_is_named() -> None:
    cost = Learned(5, by=lambda payload: [payload])  # type: ignore[arg-type, return-value]
    with pytest.raises(ArgumentError, match="by must return the kind, which is hashable, not"):
        Operation(Watcher(ignore), cost, "a")
    with pytest.raises(ArgumentError, match="kind must be hashable, not \\[\\]; as a text is"):
        Learned(5).learn([], 3)  # type: ignore[arg-type]


def test_plain_operations_are_no_larger_for_it() -> None:
    watcher = Watcher(ignore)
    assert not hasattr(Operation(watcher, 1, None), "_kind")
    assert sys.getsizeof(Operation(watcher, 1, None)) <= 96


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"start": 0}, "start must be more than zero"),
        ({"start": -1}, "start must be zero or more"),
        ({"start": float("nan")}, "start must"),
        ({"start": {"tokens": 5, "images": 0}}, "start must be more than zero, not"),
        ({"start": {}}, "start must be more than zero"),
        ({"start": {"tokens": -1}}, r"start\['tokens'\] must be zero or more"),
        ({"start": 1, "percentile": 0}, "percentile must be more than 0 and at most 100"),
        ({"start": 1, "percentile": 0.95}, "at least 1, of a hundred, not 0.95; did you mean 95?"),
        ({"start": 1, "percentile": 101}, "percentile must"),
        ({"start": 1, "percentile": float("nan")}, "percentile must"),
        ({"start": 1, "percentile": True}, "percentile must"),
        ({"start": 1, "kinds": 0}, "kinds must be at least 1"),
        ({"start": 1, "by": 7}, "by must"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        Learned(**arguments)


def test_a_forked_child_goes_on_although_its_parent_held_the_locks() -> None:
    cost = Learned(100)
    held, forked = threading.Event(), threading.Event()

    def hold() -> None:
        with cost._lock, settlement._settling:
            held.set()
            forked.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    child = os.fork()
    if not child:
        locks = (cost._lock, settlement._settling)
        os._exit(0 if all(lock.acquire(timeout=20) for lock in locks) else 1)
    forked.set()
    holder.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
