"""SharedResource by hand: what happens between its thread, a grant and what it pays for."""

from __future__ import annotations

import math
import threading

import pytest

from dispatcher import Watcher
from limiters._sharing.asking import Asking
from limiters.leases._messages import Kind, Reply
from limiters.testing import ManualClock
from tests.crank import Crank, batchable, ends, ignore
from tests.driven import Driven, Scripted


@pytest.mark.parametrize(("shared", "factor"), [(100, 1_000), (100, 100), (1_050, 1_000)])
def test_c3_a_factor_larger_than_what_is_held_does_not_hold_up_the_batches(
    shared: float, factor: float
) -> None:
    driven = Driven(shared, factor)
    crank = Crank(limiter=driven.limiter, clock=driven.clock)
    crank.enqueue(*batchable(Watcher(ignore), *range(500), cost=10))

    end = ends(crank)

    def turn() -> None:
        end()
        driven.turn()

    crank.run(3.0, at_turn=turn)
    spent = sum(o.cost for at, batch in crank.raised for o in batch if at >= 101)
    assert spent >= 0.85 * shared * 2


def test_c2_what_a_grant_has_set_aside_is_not_released() -> None:
    driven = Driven()
    driven.give_me(1_000)
    grant = driven.limiter.grant(300, 300)
    assert grant.amount == 300
    driven.limiter.give_me(0)
    driven.clock.advance(0.6)
    driven.turn()
    assert driven.limiter.partitions == pytest.approx(3, abs=1e-6)
    assert grant.spend(300).started(driven.clock.now())
    grant.close()
    driven.run(3.0)
    assert driven.limiter.partitions == 0


def test_c2_a_lease_that_ends_between_a_grant_and_its_spending() -> None:
    driven = Driven()
    driven.give_me(1_000)
    grant = driven.limiter.grant(300, 300)
    driven.clock.advance(5.0)
    assert driven.limiter.capacity == 0
    assert not grant.spend(200).started(driven.clock.now())
    grant.close()
    driven.run(2.0, lambda: driven.limiter.give_me(1_000))
    assert driven.limiter.grant(1_000, 300).amount == 300


def test_c2_a_lease_that_ended_and_was_renewed_between_a_grant_and_its_spending() -> None:
    driven = Driven()
    driven.give_me(1_000)
    grant = driven.limiter.grant(300, 300)
    driven.clock.advance(2.5)
    driven.turn()
    assert driven.limiter.capacity == 1_000
    assert not grant.spend(300).started(driven.clock.now())


def test_c3_what_costs_nothing_needs_nothing() -> None:
    driven = Driven()
    driven.limiter.start()
    assert driven.limiter.acquire(0, timeout=0)
    driven.limiter.stop()


def test_reserved_capacity_that_goes_between_a_grant_and_its_spending() -> None:
    driven = Driven(reserved=100)
    grant = driven.limiter.grant(10, 10)
    driven.limiter.set_reserved_capacity(0)
    assert grant.spend(10).started(driven.clock.now())
    grant.close()
    driven.limiter.set_reserved_capacity(100)
    assert driven.limiter.grant(100, 95).amount == pytest.approx(90)


def test_c1_a_new_identity_changes_nothing_of_what_is_reserved_nor_of_the_terms() -> None:
    clock = ManualClock(100.0)
    manager = Scripted(clock)
    first = Driven(500, manager=manager, clock=clock)
    first.give_me(100)
    driven = Driven(shared=200, reserved=100, manager=manager, clock=clock)
    driven.give_me(300)
    assert driven.limiter.max_capacity == 600
    before = driven.limiter.instance
    grant = driven.limiter.grant(90, 90)
    manager.change = lambda request, reply: Reply.scalar(Kind.STALE)
    driven.clock.advance(0.5)
    request, _ = driven.limiter._next_request()
    assert request is not None
    driven.limiter._exchange(manager, request)
    assert driven.limiter.instance != before
    assert driven.limiter.max_capacity == 600
    assert driven.limiter.capacity == 100
    assert driven.limiter.grant(1_000).amount <= 10
    grant.close()
    assert driven.limiter.grant(1_000, 100).amount <= 100
    manager.change = lambda request, reply: reply
    driven.run(1.0, first.turn)  # who gives back what it does not need
    assert driven.limiter.capacity > 100


def test_capacity_is_reported_once_and_not_again_while_it_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driven = Driven(reserved=10)
    told: list[float] = []
    told_all = threading.Event()
    driven.limiter.add_listener(lambda event: told.append(event.value), "capacity")
    driven.limiter.add_listener(lambda event: told_all.set(), "shutdown")
    monkeypatch.setattr(Asking, "run", lambda self: None)
    driven.limiter.start()
    driven.turn()
    driven.clock.advance(0.1)
    driven.give_me(2_000)
    driven.limiter.set_reserved_capacity(20)
    driven.limiter.set_reserved_capacity(20)
    driven.turn()
    driven.limiter.stop()
    assert told_all.wait(10)
    assert told == [10, 1_010, 1_020]


def test_c9_who_changes_the_capacity_asks_what_that_means_though_a_reply_is_under_way() -> None:
    driven = Driven()
    driven.turn()
    driven.give_me(100)
    driven.clock.advance(0.5)
    reply = driven.manager.sync(driven.limiter._next_request()[0])  # type: ignore[arg-type]
    driven.limiter.set_shared_capacity(3_000)
    driven.limiter._receive(reply, driven.clock.now())
    driven.clock.advance(0.06)
    driven.turn()
    assert driven.limiter.max_capacity == 3_000
    driven.limiter.give_me(0)
    driven.run(3.0)
    calls = driven.calls
    driven.limiter.set_shared_capacity(2_000)
    driven.clock.advance(0.06)
    assert driven.turn() is None
    assert driven.calls == calls + 1
    assert driven.limiter._share.capacity == 2_000


def test_c1_a_period_too_short_to_be_counted_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"^period must be from 0.001 to 86400 seconds, not 0.0004"
    ):
        Driven(period=0.0004)


def test_c4_c7_what_is_held_is_used_while_an_expensive_amount_waits_for_more() -> None:
    driven = Driven(reserved=100)
    limiter = driven.limiter
    limiter.give_me(500, "dear")
    limiter.give_me(1, "cheap")
    cheap: list[float] = []

    def ask(claimant: str, cost: float) -> bool:
        grant = limiter.grant(cost, cost, claimant)
        enough = grant.amount >= cost
        if enough:
            grant.spend(cost).started(driven.clock.now())
        grant.close()
        return enough

    # The lease manager is away.
    for _ in range(50):
        assert not ask("dear", 500)
        if ask("cheap", 1):
            cheap.append(driven.clock.now())
        driven.clock.advance(0.02)
    assert len(cheap) >= 45
    # It is back: from when there is enough, only the expensive one counts, and it goes out soon.
    back = driven.clock.now()
    while not ask("dear", 500):
        driven.turn()
        ask("cheap", 1)
        driven.clock.advance(0.01)
    assert driven.clock.now() - back < 1.2


@pytest.mark.parametrize("every", [0.001, 0.02, 0.3])
def test_c6_who_only_looks_whether_there_is_some_finds_some_in_the_end(every: float) -> None:
    # The thread looks after the demand is gone again, however it is woken.
    driven = Driven()
    driven.turn()
    driven.clock.advance(1.0)
    had = []
    for _ in range(20):
        driven.give_up_at_once(50)
        driven.clock.advance(every)
        driven.turn()
        driven.clock.advance(max(0.0, 0.06 - every))
        driven.turn()
        grant = driven.limiter.grant(50, 50)
        had.append(grant.amount)
        grant.close()
    assert had[-1] == 50
    calls = driven.calls
    driven.run(5.0)
    assert driven.calls - calls <= 3
    driven.run(5.0)
    assert driven.turn() is None
    assert driven.limiter.partitions == 0


@pytest.mark.parametrize(("shared", "factor", "cost"), [(1_000, 10, 10), (2_000, 100, 20)])
def test_c1_who_asks_for_a_little_at_a_time_soon_has_all_it_can_use(
    shared: float, factor: float, cost: float
) -> None:
    driven = Driven(shared, factor)
    caller = SerialCaller(driven, cost)
    driven.run(5.0, caller.go_on)
    caller.spent = 0.0
    driven.run(5.0, caller.go_on)
    assert caller.spent >= 0.9 * 5 * shared


def test_c5_who_could_not_spend_more_holds_no_more_while_another_waits() -> None:
    driven = Driven(10_000, 10)
    other = Driven(10_000, 10, manager=driven.manager, clock=driven.clock)
    caller, greedy = SerialCaller(driven, 10, rate=500), SerialCaller(other, 10)

    def go_on() -> None:
        caller.go_on()
        greedy.go_on()
        other.turn()

    driven.run(3.0, go_on, step=0.002)
    held: list[float] = []
    caller.spent = greedy.spent = 0.0

    def look() -> None:
        go_on()
        held.append(driven.limiter.capacity)

    driven.run(3.0, look, step=0.002)
    assert caller.spent == pytest.approx(1_500, rel=0.02)
    assert greedy.spent >= 0.95 * 3 * 9_500
    assert sum(held) / len(held) <= 1.25 * 500


def test_c5_while_none_waits_who_works_holds_half_of_what_is_left() -> None:
    driven = Driven(10_000, 10)
    caller = SerialCaller(driven, 10, rate=500)
    driven.run(5.0, caller.go_on, step=0.002)
    assert driven.limiter.capacity == pytest.approx((10_000 - 500) / 2 + 500, rel=0.02)


class SerialCaller:
    """Wants `cost`, spends it, and then wants it again: immediately, or as often as `rate` says."""

    def __init__(self, driven: Driven, cost: float, rate: float = math.inf) -> None:
        self.driven = driven
        self.cost = cost
        self.rate = rate
        self.spent = 0.0
        self.next = driven.clock.now()

    def go_on(self) -> None:
        now, limiter = self.driven.clock.now(), self.driven.limiter
        while self.next <= now:
            limiter.give_me(self.cost, self)
            grant = limiter.grant(self.cost, self.cost, self)
            granted = grant.amount >= self.cost
            if granted:
                assert grant.spend(self.cost).started(now)
            grant.close()
            if not granted:
                return
            limiter.give_me(0, self)
            self.spent += self.cost
            self.next += self.cost / self.rate
