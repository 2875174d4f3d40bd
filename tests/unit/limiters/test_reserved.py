"""Reserved capacity in addition to a shared one: laws C1, C3 and C7, by a clock that is turned by
hand."""

from __future__ import annotations

import pytest

from dispatcher import Operation, Watcher
from limiters import MemoryLeaseManager, SharedResource
from limiters.errors import LeaseManagerError
from limiters.leases._messages import Reply, Request
from limiters.testing import ManualClock
from limiters.verifier import verify
from tests.crank import Crank, batchable, ends, ignore
from tests.driven import Driven
from tests.samples import grid


class Away(MemoryLeaseManager):
    """A lease manager that cannot be reached."""

    def sync(self, request: Request) -> Reply:
        raise LeaseManagerError("nobody answers")


class Both:
    """An engine and the thread of its shared limit, turned by one clock."""

    def __init__(self, driven: Driven) -> None:
        self.driven = driven
        self.clock = driven.clock
        self.crank = Crank(limiter=driven.limiter, clock=driven.clock, buffer_size=1_000_000)
        self.backlog: list[Operation] = []

    def run(self, seconds: float) -> None:
        end = self.clock.now() + seconds
        while (now := self.clock.now()) < end:
            wait = self.driven.turn()
            if self.crank.wake <= now or self.crank.rung or self.crank.mailbox:
                self.crank.turn()
                ends(self.crank)()
                continue
            asks_at = end if wait is None else now + wait
            self.clock.advance(max(1e-4, min(self.crank.wake, asks_at, end) - now))

    def spent(self) -> int:
        return sum(len(batch) for _, batch in self.crank.raised)

    def log(self, since: float) -> list[tuple[float, str, float]]:
        return [
            (at, "one", sum(operation.cost for operation in batch))
            for at, batch in self.crank.raised
            if at >= since
        ]


def bursts(most: int) -> list[tuple[int, list[tuple[int, float]]]]:
    """Of each capacity from 1 to 1,000: how many operations of how many cents are a burst."""
    return [
        (
            capacity,
            [(n, 10 * capacity // n / 100) for n in range(1, most + 1) if not 10 * capacity % n],
        )
        for capacity in range(1, 1_001)
    ]


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_c3_fractions_that_make_up_all_that_is_reserved_go_out_immediately(every: int) -> None:
    tried = 0
    for capacity, cases in bursts(10)[::every]:
        clock = ManualClock(100.0)
        limiter = SharedResource(reserved_capacity=capacity, clock=clock)
        crank, watcher = Crank(limiter=limiter, clock=clock), Watcher(ignore, max_batch_size=10)
        for count, cost in cases:
            clock.advance(3)
            crank.enqueue(*batchable(watcher, *range(count), cost=cost))
            began, before = clock.now(), len(crank.raised)
            crank.run(0.5, at_turn=ends(crank))
            raised = [len(batch) for at, batch in crank.raised[before:] if at < began + 0.5]
            assert sum(raised) == count, f"{count} of {cost} with {capacity} reserved"
            tried += 1
    assert tried > 4_370 // every - 20


@pytest.mark.parametrize(
    ("capacity", "count", "cost"), [(7, 10, 0.07), (20, 20, 0.1), (30, 15, 0.2)]
)
@pytest.mark.parametrize("batch", [1, 7, 100])
@pytest.mark.parametrize("held", [False, True])
def test_c3_fractions_are_not_held_up_by_a_shared_limit(
    capacity: int, count: int, cost: float, batch: int, held: bool
) -> None:
    clock = ManualClock(100.0)
    manager = (MemoryLeaseManager if held else Away)(lease_time=2, clock=clock)
    both = Both(Driven(20_000, 1_000, manager=manager, clock=clock, reserved=capacity))
    watcher = Watcher(ignore, max_batch_size=batch)
    both.crank.enqueue(*batchable(watcher, *range(count), cost=cost))
    both.run(0.9)
    assert both.spent() == count
    both.run(10)  # nothing waits: what was held is over
    both.crank.enqueue(*batchable(watcher, *range(count), cost=cost))
    both.run(0.9)
    assert both.spent() == 2 * count


@pytest.mark.parametrize(
    ("batch", "reserved"),
    grid([1, 20, 200], [1, 20, 100, 250, 310, 320, 340, 1_000], every=3),
)
def test_c7_what_is_reserved_is_used_while_nothing_shared_is_held(
    reserved: int, batch: int
) -> None:
    clock = ManualClock(100.0)
    manager = Away(lease_time=2, clock=clock)
    both = Both(Driven(20_000, 1_000, manager=manager, clock=clock, reserved=reserved))
    watcher = Watcher(ignore, max_batch_size=batch)
    both.crank.enqueue(*batchable(watcher, *range(10_000), cost=reserved / 100))
    both.run(1.0)
    since = clock.now()
    both.run(4.0)
    verdict = verify(both.log(0.0), reserved)
    assert verdict.holds, verdict
    spent = sum(cost for _, _, cost in both.log(since))
    assert spent >= 0.98 * 4 * reserved * (1 - 1 / 100)


@pytest.mark.parametrize(
    ("batch", "share"), grid([1, 20, 200], [0.0, 0.1, 0.01, 0.02, 0.05], every=5)
)
def test_c1_reserved_capacity_however_small_does_not_lower_the_use_of_what_is_shared(
    share: float, batch: int
) -> None:
    shared, reserved = 20_000.0, 20_000.0 * share
    cost = 10.0 if batch > 1 else 100.0  # so that 200 turns a second are enough
    both = Both(Driven(shared, 1_000, reserved=reserved))
    watcher = Watcher(ignore, max_batch_size=batch)
    both.crank.enqueue(*batchable(watcher, *range(14_000), cost=cost))
    both.run(1.5)
    before, since = both.driven.limiter.standing(), both.clock.now()
    both.run(4.03)
    now = both.driven.limiter.standing()
    seconds = both.clock.now() - since
    used = (now.spent_shared - before.spent_shared) / seconds / shared
    assert used >= (0.98 if batch < 200 else 0.9), "a batch of 200 costs a tenth of the limit"
    assert verify(both.log(0.0), shared + reserved).holds
    assert both.crank.engine.open_work.waiting, "a backlog"


@pytest.mark.parametrize(("cost", "count"), [(1, 30), (5, 6), (30, 2)])
def test_c5_what_reserved_capacity_pays_for_only_later_is_taken_from_what_is_shared(
    cost: float, count: int
) -> None:
    """Of a long window little may go at a time: 30 seconds of it are not worth the wait."""
    both = Both(Driven(600, 6, reserved=60, period=60))
    both.run(1)
    since = both.clock.now()
    both.crank.enqueue(*(Operation(Watcher(ignore), cost, n) for n in range(count)))
    both.run(7 + 60 / 600 * cost * count)
    assert both.spent() == count, [round(at - since, 2) for at, _ in both.crank.raised]
    assert verify(both.log(0.0), 660, period=60).holds


def test_c7_what_reserved_capacity_pays_for_within_a_second_asks_for_nothing_shared() -> None:
    driven = Driven(600, 6, reserved=60)
    both = Both(driven)
    both.run(5)
    before = driven.calls
    both.crank.enqueue(*(Operation(Watcher(ignore), 10, n) for n in range(3)))
    both.run(1)
    assert both.spent() == 3
    assert driven.calls == before


def test_c3_no_error_of_a_sum_is_charged_to_a_lease_that_is_over() -> None:
    clock = ManualClock(100.0)
    driven = Driven(1_000, 100, clock=clock, reserved=0.7)
    driven.limiter.give_me(1)
    grant = driven.limiter.grant(0.7, 0.7)
    assert grant.amount == 0.7
    spend = grant.spend(sum([0.07] * 10))
    grant.close()
    assert spend.started(clock.now())
    assert driven.limiter.standing().spent_shared == 0
