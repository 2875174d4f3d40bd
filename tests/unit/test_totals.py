"""What instances have done is counted once each, whatever becomes of their requests."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from limiters.holdings import Holdings
from limiters.leases.coordinator import Coordinator
from limiters.leases.messages import Request, Terms
from limiters.leases.totals import COUNTERS, LimitTotals
from limiters.tally import Tally

TERMS = Terms(capacity=1_000.0, factor=100.0, period_ms=1_000, lease_ms=2_000)
LONG_MS = 10_000
"""Longer than until somebody is given up."""


class Worker:
    """An instance that does something now and then, and tells of it as SharedResource does."""

    def __init__(self, name: str) -> None:
        self.holdings = Holdings(name, TERMS)
        self.tally = Tally()
        self.done = 0
        self.tally.publish(lambda: {"operations_done": self.done})

    def compose(self, now: float, *, leaving: bool = False) -> Request:
        untold = self.tally.untold(self.tally.read(), {})
        if leaving and self.holdings.pending is None:
            return self.holdings.leave(now, untold)
        return self.holdings.compose(now, untold)

    def exchange(self, coordinator: Coordinator, now_ms: int, *, heard: bool = True) -> Request:
        request = self.compose(now_ms / 1000)
        reply = coordinator.sync(request, now_ms, "server")
        if heard and not reply.stale:
            self.tally.told(request.totals)
            self.holdings.answered(reply, now_ms / 1000, now_ms / 1000)
        return request


def counted(coordinator: Coordinator) -> float:
    return coordinator.totals.counts[0] if coordinator.totals.counts else 0.0


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_each_thing_done_counts_once_whatever_is_lost_doubled_late_or_forgotten(seed: int) -> None:
    random = Random(seed)
    coordinator = Coordinator(forgetful=False)
    workers = [Worker(f"w{number}") for number in range(4)]
    old: list[Request] = []
    now_ms, before = 1_000_000, 0.0
    for _ in range(80):
        now_ms += random.choice([50, 60, 500, 2_500, LONG_MS])
        worker = random.choice(workers)
        worker.done += random.choice([0, 1, 5])
        dice = random.random()
        if dice < 0.15:
            worker.compose(now_ms / 1000)  # lost on its way there
        elif dice < 0.3:
            old.append(worker.exchange(coordinator, now_ms, heard=False))
        elif dice < 0.4 and old:
            coordinator.sync(random.choice(old), now_ms, "server")  # it comes again, late
        else:
            old.append(worker.exchange(coordinator, now_ms))
        assert before <= counted(coordinator) <= sum(one.done for one in workers)
        before = counted(coordinator)
    for worker in workers:  # first what is under way, then what is left, in leaving
        for _ in range(2):
            now_ms += 50
            worker.exchange(coordinator, now_ms)
    assert counted(coordinator) == sum(one.done for one in workers)


def test_a_request_that_is_sent_again_when_its_sender_was_given_up_counts_once() -> None:
    coordinator = Coordinator(forgetful=False)
    worker = Worker("w")
    worker.exchange(coordinator, 1_000)
    worker.done = 7
    worker.exchange(coordinator, 1_500, heard=False)
    Worker("another").exchange(coordinator, 1_500 + LONG_MS)
    assert "w" not in coordinator.members
    worker.exchange(coordinator, 1_600 + LONG_MS)
    assert counted(coordinator) == 7
    worker.done = 8
    worker.exchange(coordinator, 1_700 + LONG_MS)
    assert counted(coordinator) == 8


def test_one_that_never_reached_anybody_counts_when_it_does_however_late() -> None:
    coordinator = Coordinator(forgetful=False)
    worker = Worker("w")
    worker.exchange(coordinator, 1_000)
    worker.done = 7
    worker.compose(1.5)
    Worker("another").exchange(coordinator, 1_500 + LONG_MS)
    worker.exchange(coordinator, 1_600 + LONG_MS)
    assert counted(coordinator) == 7


def test_what_is_left_goes_with_the_last_request() -> None:
    coordinator = Coordinator(forgetful=False)
    worker = Worker("w")
    worker.exchange(coordinator, 1_000)
    worker.done = 3
    request = worker.compose(1.2, leaving=True)
    assert request.leaving
    coordinator.sync(request, 1_200)
    assert counted(coordinator) == 3


def test_totals_outlive_another_server_and_a_new_factor_but_not_the_loss_of_everything() -> None:
    coordinator = Coordinator(forgetful=False)
    worker = Worker("w")
    worker.done = 3
    worker.exchange(coordinator, 1_000)
    coordinator.sync(Worker("b").compose(1.1), 1_100, "another server")
    coordinator.set_capacity(Terms(500, 50, 1_000, 2_000), 1_200, "another server")
    assert counted(coordinator) == 3
    view = coordinator.look(1_300)
    assert view is not None
    assert dict(zip(COUNTERS, view.totals, strict=True))["operations_done"] == 3
    coordinator.forget()
    assert counted(coordinator) == 0


def test_those_who_were_given_up_are_not_remembered_for_ever() -> None:
    totals = LimitTotals()
    for number in range(1_000):
        totals.give_up(f"w{number}", 1, now_ms=number * 60_000)
    assert 60 <= len(totals.heard) <= 120


def test_a_source_that_ended_or_raises_keeps_what_it_said() -> None:
    tally = Tally()
    said = {"operations_done": 2.0, "unknown": 9.0}
    one = tally.publish(lambda: said)

    def broken() -> dict[str, float]:
        raise RuntimeError

    tally.publish(broken)
    assert tally.read()[0] == 2
    said["operations_done"] = 5.0
    one.end()
    one.end()
    said["operations_done"] = 50.0
    assert tally.read()[0] == 5


def test_what_goes_back_is_told_as_nothing() -> None:
    tally = Tally()
    said = {"throttled": 2.0}
    tally.publish(lambda: said)
    tally.told(tally.untold(tally.read(), {}))
    said["throttled"] = 1.0
    assert tally.untold(tally.read(), {}) == ()
