"""The engine under a limit: laws C3 to C5 and C9 in one process, and events."""

from __future__ import annotations

import pytest

from dispatcher import (
    Operation,
    TooExpensiveError,
    Watcher,
)
from dispatcher._core.waiters import DrainWaiter
from limiters import ProvisionedResource
from limiters._budgets.spend import BudgetEntry, Spend, Tenure
from limiters.errors import ExceedsCapacityError as TooExpensiveErrorOfTheLimiter
from limiters.testing import ManualClock
from tests.crank import Crank, batchable, ends, ignore, limited

# How operations pass a limit.


def test_c3_less_than_ten_units_a_second_are_spent_with_a_flush_interval_of_100_ms() -> None:
    for capacity in (0.5, 1, 7):
        crank = limited(capacity, flush_interval=0.1)
        watcher = Watcher(ignore)
        crank.enqueue(*batchable(watcher, *range(1000), cost=min(1, capacity)))
        crank.run(20, at_turn=ends(crank))
        raised = sum(o.cost for _, batch in crank.raised for o in batch)
        assert 0.97 * capacity * 19 <= raised <= capacity * 21


def test_c3_a_flush_without_capacity_raises_only_operations_that_cost_nothing() -> None:
    crank = limited(10)
    watcher = Watcher(ignore)
    crank.enqueue(Operation(watcher, 10, "all of it"))
    crank.run(0.5)
    crank.enqueue(Operation(watcher, 1, "costs"), Operation(watcher, 0, "free"))
    for _ in range(5):
        crank.flush()
    assert [o.payload for _, b in crank.raised for o in b] == ["all of it", "free"]
    crank.run(1)
    assert crank.raised[-1][1][0].payload == "costs"


def test_c1_a_batch_counts_from_the_start_of_its_callback_even_if_it_waits_for_a_thread() -> None:
    crank = limited(10)
    watcher = Watcher(ignore)
    crank.runners.busy = True
    crank.enqueue(Operation(watcher, 10, "first"))
    crank.run(0.7)
    crank.runners.go_on()
    crank.enqueue(Operation(watcher, 10, "second"))
    crank.run(3)
    (began, _), (next_began, _) = crank.raised
    assert began == pytest.approx(0.7)
    assert 1 <= next_began - began < 1.1


def test_c4_a_large_operation_is_sent_in_bounded_time_and_no_younger_one_overtakes_it() -> None:
    crank = limited(100)
    watcher = Watcher(ignore)
    crank.enqueue(*(Operation(watcher, 5, n) for n in range(10)))
    crank.run(0.5)
    crank.enqueue(Operation(watcher, 90, "large"))
    crank.enqueue(*(Operation(watcher, 1, f"later {n}") for n in range(20)))
    crank.run(3, at_turn=ends(crank))
    order = [o.payload for _, batch in crank.raised for o in batch]
    assert order == [*range(10), "large", *(f"later {n}" for n in range(20))]
    at = next(at for at, batch in crank.raised if batch[0].payload == "large")
    assert at <= 2


def test_c4_a_large_operation_is_sent_although_another_batcher_keeps_the_limiter_busy() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    large, busy = (Crank(limiter=limiter, clock=clock) for _ in range(2))
    watcher = Watcher(ignore)
    large.enqueue(Operation(watcher, 50, "large"))
    for _ in range(400):
        busy.enqueue(Operation(Watcher(ignore), 1, None))
        busy.enqueue(Operation(Watcher(ignore), 1, None))
        for crank in (busy, large):
            if crank.rung or crank.mailbox or crank.wake <= clock.now():
                crank.turn()
            for call in list(crank.calls):
                call.end()
        clock.advance(0.01)
    [(at, _)] = large.raised
    assert at <= 2.5
    assert sum(one.cost for _, batch in busy.raised for one in batch) >= 250


def test_a_turn_that_is_not_used_lapses() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    limiter.grant(100, 100, "a").spend(100).started(0.0)
    assert limiter.grant(60, 60, "gone").amount == 0
    clock.advance(1.05)
    assert limiter.grant(1, 0, "other").amount == 0
    clock.advance(0.2)
    assert limiter.grant(1, 0, "other").amount == 1


def test_c4_an_operation_that_costs_more_than_max_capacity_is_refused() -> None:
    crank = limited(100)
    with pytest.raises(TooExpensiveError, match="costs 101, more than the limiter's max_capacity"):
        crank.enqueue(Operation(Watcher(ignore), 101, "too large"))
    crank.enqueue(Operation(Watcher(ignore), 100, "just"))


def test_c9_waiting_operations_that_no_longer_fit_fail_with_too_expensive_error() -> None:
    clock = ManualClock()
    limiter = ProvisionedResource(100, clock=clock)
    crank = Crank(limiter=limiter, clock=clock)
    errors: list[BaseException] = []
    watcher = Watcher(ignore, on_failure=lambda operations, error: errors.append(error))
    crank.enqueue(Operation(watcher, 90, "fits", key="k"), Operation(watcher, 80, "no", key="k"))
    crank.enqueue(Operation(watcher, 5, "small", key="k"))
    crank.turn()
    limiter.set_capacity(50)
    crank.run(0.1)
    [_, handed] = crank.calls
    assert handed.payloads == ["no"]
    assert isinstance(handed.job.arguments[1], TooExpensiveError)
    handed.end()
    crank.calls[0].end()
    crank.run(2)
    assert crank.raised[-1][1][0].payload == "small"
    assert crank.engine.open_work.read() == (5, 1, 0)


def test_c5_the_demand_is_the_cost_that_free_slots_can_use() -> None:
    crank = limited(100, emit_request=True, max_concurrent_batches=2)
    watcher = Watcher(ignore, max_batch_size=5)
    crank.enqueue(*batchable(watcher, *range(100), cost=2))
    crank.run(0.3)
    assert len(crank.calls) == 2  # callbacks are slow: the rest cannot be used
    requests = [event.value for event in crank.events if event.name == "request"]
    assert requests[-1] == 0
    crank.calls[0].end()
    crank.calls[0].end()
    crank.run(0.001)
    requests = [event.value for event in crank.events if event.name == "request"]
    assert 0 < requests[-1] <= 20  # two slots, five operations each, of cost two


def test_c5_operations_behind_a_key_in_flight_are_not_in_the_demand() -> None:
    crank = limited(1000, emit_request=True)
    watcher = Watcher(ignore)
    crank.enqueue(*(Operation(watcher, 5, n, key="k") for n in range(10)))
    crank.run(0.3)
    assert len(crank.calls) == 1
    assert [event.value for event in crank.events if event.name == "request"][-1:] in ([], [0])


def test_an_idle_engine_asks_the_limiter_for_nothing() -> None:
    crank = limited(100, emit_request=True)
    crank.enqueue(*batchable(Watcher(ignore, max_batch_size=3), *range(50), cost=0.1))
    crank.run(2)
    crank.end_all()
    crank.run(1)
    crank.events.clear()
    crank.run(9)
    assert "request" not in crank.names()


# Events.


def test_frequent_events_are_emitted_only_if_they_are_switched_on() -> None:
    crank = Crank(emit_batch=True, emit_flush=True)
    [operation] = batchable(Watcher(ignore), "a")
    crank.enqueue(operation)
    crank.run(0.2)
    assert crank.names() == ["flush-start", "batch", "flush-done"]
    assert crank.events[1].metadata == [operation]
    assert crank.events[1].value == crank.events[2].value == 1
    quiet = Crank()
    quiet.enqueue(Operation(Watcher(ignore), 1, "a"))
    quiet.run(0.2)
    assert quiet.names() == []


# Other laws.


def test_b4_a_batch_for_which_there_is_no_thread_waits_again_and_counts_no_attempt() -> None:
    crank = limited(10)
    crank.runners.refusing = True
    operation = Operation(Watcher(ignore), 10, "a", key="k")
    crank.enqueue(operation)
    crank.turn()
    assert crank.engine.open_work.read() == (10, 0, 1)
    crank.runners.refusing = False
    crank.run(1.5)
    assert [call.payloads for call in crank.calls] == [["a"]]
    assert operation.attempt == 1


def test_waiting_ends_when_all_of_a_watchers_operations_have_ended() -> None:
    crank, watcher = Crank(), Watcher(ignore, on_failure=lambda operations, error: None)
    woken: list[str] = []
    crank.post(crank.engine.await_idle, DrainWaiter(lambda: woken.append("nothing yet")), watcher)
    assert woken == ["nothing yet"]
    crank.enqueue(Operation(watcher, 1, "a"))
    crank.post(crank.engine.await_idle, DrainWaiter(lambda: woken.append("idle")), watcher)
    crank.post(crank.engine.await_drained, DrainWaiter(lambda: woken.append("drained")))
    crank.end_all(OSError())
    assert woken == ["nothing yet"]  # the failure callback is still running
    crank.end_all()
    assert woken[1:] == ["idle", "drained"]


def test_watchers_that_are_done_are_forgotten() -> None:
    crank = Crank()
    for _ in range(100):
        crank.enqueue(Operation(Watcher(ignore), 1, "a", key="k"))
        crank.turn()
        crank.end_all()
    assert list(crank.engine.lanes) == []


def test_c2_a_batch_whose_capacity_lapses_before_it_begins_waits_again() -> None:
    clock = ManualClock()
    limiter = Lapsing(100, clock=clock)
    crank = Crank(limiter=limiter, clock=clock)
    watcher = Watcher(ignore, max_attempts=1)
    crank.enqueue(Operation(watcher, 10, "a", key="k"), Operation(watcher, 10, "b", key="k"))
    crank.run(0.5)
    assert crank.raised == []
    assert crank.engine.open_work.read() == (20, 0, 2)
    limiter.tenure.until = 1e9
    crank.run(0.5, at_turn=ends(crank))
    assert [o.payload for _, batch in crank.raised for o in batch] == ["a", "b"]
    assert [o.attempt for _, batch in crank.raised for o in batch] == [1, 1]
    assert crank.engine.open_work.totals.batches == 2


class Lapsing(ProvisionedResource):
    """A limit whose capacity is held until the time that the test sets."""

    tenure = Tenure(until=-1.0)

    def charge(self, cost: float) -> Spend:
        spend = super().charge(cost)
        assert isinstance(spend, BudgetEntry)
        spend.tenure = self.tenure
        return spend


@pytest.mark.parametrize("batchable", [True, False])
def test_c4_an_operation_as_large_as_the_limit_is_sent_although_its_cost_is_a_sum(
    batchable: bool,
) -> None:
    crank = limited(0.3)
    watcher = Watcher(ignore)
    crank.enqueue(Operation(watcher, 0.1 + 0.2, "a", batchable=batchable))
    crank.entrance.enqueue_many([Operation(watcher, 0.1 + 0.2, "b", batchable=batchable)])
    crank.run(2.5, at_turn=ends(crank))
    assert [o.payload for _, batch in crank.raised for o in batch] == ["a", "b"]
    with pytest.raises(TooExpensiveError, match=r"costs 0.30001, .* of 0\.3;"):
        crank.enqueue(Operation(watcher, 0.30001, "c"))


def test_c4_a_sum_as_large_as_the_limit_can_be_acquired() -> None:
    with ProvisionedResource(0.3) as limiter:
        assert limiter.acquire(0.1 + 0.2, timeout=5)
        with pytest.raises(TooExpensiveErrorOfTheLimiter):
            limiter.acquire(0.30001)


def test_c9_a_limit_that_is_lowered_to_the_cost_of_an_operation_still_lets_it_go() -> None:
    crank = limited(1)
    crank.enqueue(Operation(Watcher(ignore), 0.1 + 0.2, "a", batchable=True))
    assert isinstance(crank.engine.limiter, ProvisionedResource)
    crank.engine.limiter.set_capacity(0.3)
    crank.run(2, at_turn=ends(crank))
    assert [o.payload for _, batch in crank.raised for o in batch] == ["a"]
