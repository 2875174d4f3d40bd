"""Several SharedResources on one limit, by a clock that is turned by hand: laws C1, C4, C5 and
C9 to C12 as far as they are visible there, with Batchers and without."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest

from dispatcher import Watcher
from limiters import MemoryLeaseManager
from limiters._resource.reservation import Receipt
from limiters.testing import ManualClock
from limiters.verifier import verify
from tests.crank import Crank, batchable, ends, ignore
from tests.driven import Driven, Scripted
from tests.samples import sample
from tests.waiting import Heard

STEP = 0.005


class Working:
    """A limiter with a Batcher that always has work, each operation a batch."""

    def __init__(self, limits: Limits, cost: float, **settings: float) -> None:
        self.driven = Driven(
            limits.shared, limits.factor, manager=limits.manager, clock=limits.clock, **settings
        )
        self.crank = Crank(limiter=self.driven.limiter, clock=limits.clock, buffer_size=1_000_000)
        self.end = ends(self.crank)
        self.cost = cost
        self.watcher = Watcher(ignore, max_batch_size=1)
        self.killed = False
        self.held = 0.0

    def work(self, operations: int) -> None:
        self.crank.enqueue(*batchable(self.watcher, *range(operations), cost=self.cost))

    def turn(self) -> float:
        """Does what is due; when it wants to be woken."""
        if self.killed:
            return math.inf
        wait = self.driven.turn()
        now, held = self.driven.clock.now(), self.driven.limiter.capacity
        told, self.held = held != self.held, held  # as a Batcher is by the event
        if told or self.crank.wake <= now or self.crank.rung or self.crank.mailbox:
            self.crank.turn()
            self.end()
        due = math.inf if wait is None else now + wait
        return min(due, self.crank.wake)

    def spent(self, since: float, until: float = math.inf) -> float:
        return sum(len(batch) * self.cost for at, batch in self.crank.raised if since < at <= until)


class Limits:
    """Several SharedResources that share one limit in one process."""

    def __init__(self, shared: float, factor: float, *, period: float = 1.0) -> None:
        self.shared, self.factor, self.period = shared, factor, period
        self.clock = ManualClock(100.0)
        self.manager: MemoryLeaseManager = MemoryLeaseManager(
            "orders", lease_time=2, clock=self.clock
        )
        self.all: list[Working] = []

    def join(self, cost: float, operations: int = 20_000, **settings: float) -> Working:
        one = Working(self, cost, period=self.period, **settings)
        one.work(operations)
        self.all.append(one)
        return one

    def run(self, seconds: float, each: Callable[[], object] = lambda: None) -> None:
        end = self.clock.now() + seconds
        while (now := self.clock.now()) < end:
            each()
            wake = min(one.turn() for one in self.all)
            self.clock.advance(min(max(wake - now, 1e-4), STEP))

    def worst(self, reserved: float = 0.0) -> float:
        log = [
            (at, "all", len(batch) * one.cost) for one in self.all for at, batch in one.crank.raised
        ]
        return verify(log, self.shared + reserved, period=self.period).worst

    def used(self, since: float) -> float:
        seconds = self.clock.now() - since
        return sum(one.spent(since) for one in self.all) / self.shared / seconds * self.period


# Permits.


@pytest.mark.parametrize("cost", sample([700.0, 400.0, 1_000.0], every=3))
def test_c4_batchers_with_operations_that_cost_more_than_a_share_take_turns(cost: float) -> None:
    limits = Limits(1_000, 50)
    crowd = [limits.join(cost, 100) for _ in range(3)]
    limits.run(4)
    since = limits.clock.now()
    limits.run(18)
    spent = [one.spent(since) for one in crowd]
    assert limits.worst() <= 1
    assert max(spent) - min(spent) <= 2 * cost
    whole = 1_000 // cost * cost / 1_000  # of one queue for all
    assert limits.used(since) >= 0.97 * whole
    assert all(one.driven.limiter.standing().permits > 3 for one in crowd)


def test_c4_c5_one_whose_operations_cost_the_whole_limit_starves_no_other() -> None:
    limits = Limits(1_000, 50)
    expensive, *others = limits.join(1_000, 100), limits.join(10), limits.join(10)
    limits.run(4)
    since = limits.clock.now()
    limits.run(30)
    assert limits.worst() <= 1
    assert min(one.spent(since) / 30 for one in others) >= 280
    assert expensive.spent(since) / 30 >= 250
    assert limits.used(since) >= 0.95


@pytest.mark.parametrize("reserved", [0.0, 100.0])
def test_c4_its_operations_go_out_also_where_it_has_reserved_capacity(reserved: float) -> None:
    limits = Limits(1_000, 50)
    one = limits.join(1_000, 100, reserved=reserved)
    limits.join(10)
    limits.run(4)
    since = limits.clock.now()
    limits.run(12)
    assert limits.worst(reserved) <= 1
    assert one.spent(since) >= 5_000


@pytest.mark.parametrize(
    ("instances", "least"), [(3, 0.85), pytest.param(8, 0.97, marks=pytest.mark.long)]
)
def test_c5_a_limit_of_five_a_second_for_several_is_used_and_fair(
    instances: int, least: float
) -> None:
    limits = Limits(5, 1)
    crowd = [limits.join(1, 1_000) for _ in range(instances)]
    limits.run(4)
    since = limits.clock.now()
    limits.run(24)
    spent = [one.spent(since) for one in crowd]
    assert limits.worst() <= 1
    assert limits.used(since) >= least
    assert sum(spent) ** 2 / (instances * math.fsum(it * it for it in spent)) >= 0.98


def test_c4_each_operation_has_waited_for_itself_alone() -> None:
    limits = Limits(1_000, 50)
    scripted = limits.manager = Scripted(limits.clock)
    one, _ = limits.join(1_000, 100), limits.join(1_000, 100)
    limits.run(14)
    name = one.driven.limiter.instance
    asked = [it for it in scripted.requests if it.instance == name and it.gathers]
    waited = [request.waited for request in asked]
    assert sum(later < earlier for earlier, later in pairwise(waited)) >= 4
    assert max(waited[len(waited) // 2 :]) <= 2_500, "its turn comes every other second"


def test_c4_one_killed_with_a_permit_or_while_it_waits_holds_up_no_other() -> None:
    limits = Limits(1_000, 50)
    crowd = [limits.join(1_000, 100) for _ in range(4)]
    limits.run(4)
    for one in crowd[:3]:
        one.killed = True
    limits.run(1.6)
    since = limits.clock.now()
    limits.run(6)
    assert limits.worst() <= 1
    assert crowd[3].spent(since) >= 5_000


# Fair shares.


@pytest.mark.parametrize(
    "light", [4, *(pytest.param(many, marks=pytest.mark.long) for many in (10, 19))]
)
def test_c5_instances_that_need_a_thousandth_leave_the_rest_to_the_busy_one(light: int) -> None:
    limits = Limits(1_000, 50)
    busy = limits.join(10)
    quiet = [limits.join(0.1, 0) for _ in range(light)]
    fed = [limits.clock.now()]

    def feed() -> None:
        if limits.clock.now() >= fed[0]:
            fed[0] += 0.1
            for one in quiet:
                one.work(1)

    limits.run(4, feed)
    since = limits.clock.now()
    limits.run(5, feed)
    assert limits.worst() <= 1
    assert busy.spent(since) >= 0.95 * 5 * 1_000
    assert all(one.spent(since) >= 0.8 * 5 for one in quiet)


def test_c5_what_an_instance_inherits_is_not_spending_of_its_own() -> None:
    limits = Limits(1_000, 50, period=4.0)
    first = limits.join(10, 100)  # all of the limit, and no more
    limits.run(3.7)
    assert first.spent(0) == 1_000
    second = limits.join(10, 5)
    limits.run(1.5)
    ledger = second.driven.limiter._share.ledger
    assert ledger.inherited.total(limits.clock.now()) > 10, "of what the first one spent"
    limits.run(3)
    view = limits.manager.look()
    assert view is not None
    (seen,) = (one for one in view.instances if one.instance == second.driven.limiter.instance)
    assert seen.spent <= 50
    assert second.driven.limiter.standing().spent_shared <= 50


def test_c5_weights_divide_the_limit() -> None:
    limits = Limits(1_000, 50)
    heavy, light = limits.join(10, weight=3.0), limits.join(10, weight=1.0)
    limits.run(4)
    since = limits.clock.now()
    limits.run(5)
    assert heavy.spent(since) == pytest.approx(3 * light.spent(since), rel=0.03)


@pytest.mark.parametrize(("weight", "fits"), [(0.001, True), (1_000, True), (1e308, False)])
def test_c5_weights_have_bounds(weight: float, fits: bool) -> None:
    if fits:
        Driven(weight=weight)
        return
    with pytest.raises(ValueError, match=r"^weight must be from 0.001 to 1000, not 1e\+308"):
        Driven(weight=weight)


# What people see.


def test_c10_partitions_are_a_number_with_a_fraction() -> None:
    limits = Limits(1_000, 50)
    crowd = [limits.join(5, 2_000) for _ in range(30)]
    limits.run(2.5)
    for one in crowd:
        assert one.driven.limiter.partitions == pytest.approx(20 / 30, abs=0.1)
        assert one.driven.limiter.standing().partitions_held == one.driven.limiter.partitions
    assert sum(one.driven.limiter.partitions for one in crowd) <= 20 * (1 + 1e-9)


def test_c10_allocated_and_released_come_when_the_whole_number_changes() -> None:
    driven = Driven(1_000, 300)  # four partitions
    heard = Heard(driven.limiter)
    driven.give_me(400)  # and half of what is left: 0.7 of it, 2.8 partitions
    assert driven.limiter.partitions == pytest.approx(2.8)
    driven.clock.advance(0.1)
    driven.give_me(2_000)
    driven.clock.advance(0.1)
    driven.turn()
    driven.limiter.give_me(0)
    driven.run(3.0)
    heard.wait_for("released", times=4)
    assert heard.of("allocated") == [0, 1, 2, 3]
    assert heard.of("released") == [3, 2, 1, 0]


def test_c9_a_capacity_or_factor_that_changes_moves_nothing() -> None:
    clock = ManualClock(100.0)
    manager = Scripted(clock)
    driven = Driven(1_000, 100, manager=manager, clock=clock)
    driven.give_me(5_000)
    assert driven.manager.set_terms(capacity=600, factor=50)
    driven.clock.advance(0.5)
    driven.turn()
    assert driven.limiter.capacity == 600
    assert driven.limiter.partitions == pytest.approx(12)
    assert not any(request.released for request in manager.requests)


# Other terms.


def test_c11_one_with_another_period_is_refused_with_the_command_that_changes_it() -> None:
    first = Driven(1_000, 100)
    first.give_me(500)
    other = Driven(1_000, 100, manager=first.manager, clock=first.clock, period=3.0, reserved=10)
    heard = Heard(other.limiter)
    other.give_me(500)
    error = heard.wait_for("error").message
    assert "period=3" in error
    assert "has lease_time=2 and period=1" in error
    assert "dispatcher limit set memory --lease-time 2 --period 3" in error
    assert heard.wait_for("refused").message == "memory"
    assert other.limiter.standing().refused
    assert other.limiter.capacity == 10, "what is reserved it may spend"
    other.run(3.0)
    assert other.calls <= 8, "it asks now and then"
    assert heard.names.count("refused") == 1
    # The operator runs that command: all instances follow.
    assert first.manager.set_terms(period=3.0)
    other.run(6.0, first.turn)
    assert not other.limiter.standing().refused
    assert other.limiter.capacity > 10
    assert first.limiter.period == other.limiter.period == 3.0


def test_c2_c9_a_limit_that_is_deleted_while_it_is_held_is_not_granted_twice() -> None:
    limits = Limits(1_000, 50)
    for _ in range(2):
        limits.join(10)
    limits.run(3)
    assert limits.manager.delete()
    limits.join(10)
    limits.run(8)
    assert limits.worst() <= 1
    assert limits.used(limits.clock.now() - 2) >= 0.95


def test_c12_the_first_batch_of_a_new_limit_starts_immediately() -> None:
    limits = Limits(1_000, 50)
    one = limits.join(10)
    began = limits.clock.now()
    limits.run(0.05)
    assert one.spent(began - 1, began + 0.05) >= 10


def test_c1_c9_capacity_lowered_and_raised_again_under_batchers() -> None:
    limits = Limits(1_000, 50)
    for _ in range(6):
        limits.join(10)
    limits.run(3)
    for capacity in (500.0, 1_000.0, 950.0, 1_000.0, 100.0, 1_000.0):
        assert limits.manager.set_terms(capacity=capacity)
        limits.run(0.7)
    limits.run(6)
    assert limits.worst() <= 1
    assert limits.used(limits.clock.now() - 3) >= 0.95


def test_c1_reserved_capacity_is_for_the_period_that_an_operator_has_set() -> None:
    # Given 10 reserved for each second, and an operator who makes the period five seconds.
    one = Driven(shared=100, factor=10, reserved=10)
    one.give_me(50)
    assert one.manager.set_terms(period=5.0)
    one.run(1.0)
    assert one.limiter.period == 5.0
    # When it has always something to spend, in the time in which only what is reserved is there.
    spent = 0

    def spend() -> None:
        nonlocal spent
        spent += one.limiter.take(1.0, None, Receipt())

    before = one.limiter.standing().spent_reserved
    one.run(4.9, spend)
    # Then no more than 10 of it is spent in five seconds.
    assert spent > 0
    assert one.limiter.standing().spent_reserved - before <= 10
