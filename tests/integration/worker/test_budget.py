"""A Worker's capacity, and how much it leases."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from dispatcher import ProvisionedResource
from dispatcher.timeline import Lease, Message, Timeline
from dispatcher.worker import _leasing as leasing
from dispatcher.worker._room import View, claim
from limiters import MemoryLeaseManager, SharedResource
from limiters.leases._messages import Kind, Reply, Request, Terms
from limiters.verifier import Spent, verify
from tests.integration.worker.handled import Made, Noted, create, dead, many
from tests.logged import told_of
from tests.starts import began
from tests.waiting import until


def test_b4_costs_are_charged_and_the_limit_holds(timeline: Timeline, run: Made) -> None:
    create(timeline, *[Message({"units": 5}) for _ in range(60)])
    begun: list[Spent] = []

    def note(messages: list[Lease]) -> None:
        begun.append(Spent(began(), "worker", 5 * len(messages)))

    worker = run(note, rate_limiter=ProvisionedResource(200), cost="units")
    until(lambda: worker.totals.done == 60)
    assert sum(spent.cost for spent in begun) == 300
    assert verify(begun, 200).holds


def test_what_has_no_cost_or_too_large_a_one_ends_among_the_dead(
    timeline: Timeline, run: Made, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = [{"units": 1}, {"units": 999}, {}]
    create(timeline, *[Message(body, id=f"m{n}") for n, body in enumerate(bodies)])
    worker = run(Noted(), rate_limiter=ProvisionedResource(100), cost="units", max_attempts=1)
    until(lambda: worker.totals.done + worker.totals.dead == 3)
    reasons = dead(timeline)
    assert "TooExpensiveError" in reasons["m1"]
    assert "has no field 'units'" in reasons["m2"]
    logged = {it["error"]: it for it in told_of("cost-unknown", caplog)}
    assert set(logged) == {"TooExpensiveError", "ValueError"}
    assert all(it["levelname"] == "WARNING" for it in logged.values())


def test_an_idle_neighbour_does_not_starve_while_this_one_is_slow(
    timeline: Timeline, run: Made
) -> None:
    create(timeline, *many(200))
    go_on = threading.Event()
    slow = run(lambda messages: go_on.wait(20) and None, concurrency=2, max_batch_size=10)
    until(lambda: slow.in_flight == 2)
    assert slow.in_flight * 10 + slow.waiting <= 20
    quick = run(Noted(), max_batch_size=10)
    until(lambda: quick.totals.done == 200 - slow.totals.leased)
    assert slow.totals.leased <= 20
    go_on.set()
    until(lambda: slow.totals.done + quick.totals.done == 200)


def test_c5_it_takes_no_more_than_the_budget_can_use_soon(timeline: Timeline, run: Made) -> None:
    create(timeline, *many(500))
    worker = run(Noted(), rate_limiter=ProvisionedResource(40), max_batch_size=100)
    until(lambda: worker.totals.done >= 10)
    assert worker.waiting <= 20, "half a second's worth"
    leased = worker.totals.leased  # before those that are done by then
    assert leased <= worker.totals.done + 20 + 40


def test_c5_the_backlog_is_demanded_so_that_a_share_grows_immediately(
    timeline: Timeline, run: Made
) -> None:
    for number in range(12):
        create(timeline, *[Message(number) for _ in range(1_000)])
    manager = MemoryLeaseManager()

    def share(weight: float) -> SharedResource:
        return SharedResource(
            shared_capacity=4_000,
            factor=100,
            lease_manager=manager,
            max_interval=0.25,
            weight=weight,
        )

    with share(19) as other:
        other.give_me(1e6)
        limiter = share(1)
        worker = run(Noted(), rate_limiter=limiter, max_batch_size=500, flush_interval=0.02)
        until(lambda: worker.totals.done > 400)
        until(lambda: limiter.partitions == pytest.approx(2, rel=0.1))
        changes: list[float] = []
        limiter.add_listener(lambda event: changes.append(event.value), "capacity")
        other.give_me(0)
        until(lambda: limiter.partitions > 20)
        # What it could use counts, not a little more each time than what it has used: even if that
        # were twice as much, no step would be longer.
        until(lambda: changes and changes[-1] == 4_000)
        assert max(after / before for before, after in pairwise([200.0, *changes])) > 2.1


class Counted(MemoryLeaseManager):
    """Counts how often each instance has asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def sync(self, request: Request) -> Reply:
        self.asked[request.instance] += 1
        return super().sync(request)


def share_of(manager: MemoryLeaseManager) -> SharedResource:
    return SharedResource(
        shared_capacity=2_000, factor=100, lease_manager=manager, max_interval=0.05, period=0.2
    )


def test_c5_c6_a_worker_whose_work_others_have_done_holds_nothing_and_asks_for_nothing(
    timeline: Timeline, run: Made
) -> None:
    manager, go_on = Counted(), threading.Event()
    limiter = share_of(manager)
    create(timeline, *many(500))
    worker = run(
        Noted(lambda messages: go_on.wait(30) and None),
        rate_limiter=limiter,
        max_batch_size=20,
        concurrency=1,
    )
    until(lambda: worker.in_flight)
    other = timeline.consumer("other")
    until(lambda: other.delete(other.lease(1_000, 30)) == [] and timeline.stats().new == 0)
    go_on.set()
    until(lambda: timeline.stats().deleted == 500)
    with share_of(manager) as busy:
        busy.give_me(1e6)
        until(lambda: busy.partitions == pytest.approx(20))
        # gives back what it held, and sleeps until a message is due.
        until(lambda: limiter._next_request()[1] is None)
        assert not limiter.standing().partitions_wanted
        idle, asked = manager.asked[limiter.instance], manager.asked[busy.instance]
        until(lambda: manager.asked[busy.instance] > asked + 40)
        assert manager.asked[limiter.instance] == idle
    assert limiter.standing().demand == 0


def test_c5_a_worker_that_was_stopped_leaves_no_demand_on_a_limiter_that_goes_on(
    timeline: Timeline, run: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = threading.Event()

    def slow(view: View) -> float:
        """Between the look at what is due and the word to the limiter the worker is stopped."""
        cost = claim(view)
        if cost:
            claims.set()
            until(lambda: worker.consumer.closed)
        return cost

    monkeypatch.setattr(leasing, "claim", slow)
    create(timeline, *many(900))
    with share_of(MemoryLeaseManager()) as limiter:
        worker = run(Noted(), rate_limiter=limiter, max_batch_size=20)
        assert claims.wait(30)
        worker.stop(5)
        assert limiter.standing().demand == 0


def test_c5_at_light_load_no_more_is_demanded_than_is_due(timeline: Timeline, run: Made) -> None:
    limiter = share_of(MemoryLeaseManager())
    demands: list[float] = []
    limiter.add_listener(lambda event: demands.append(event.value), "target")
    worker = run(Noted(), rate_limiter=limiter, max_batch_size=20)
    for number in range(20):
        create(timeline, *[Message(it) for it in range(30)])
        wanted = 30 * (number + 1)
        until(lambda: worker.totals.done == wanted)  # noqa: B023
    # what is due and what is leased are counted by two: both may count a message
    assert max(demands) <= 60


def test_one_whose_limiter_asks_for_nothing_any_more_wants_to_be_restarted(
    timeline: Timeline, run: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = MemoryLeaseManager()
    limiter = SharedResource(shared_capacity=20, lease_manager=manager, max_interval=0.25)
    worker = run(Noted(), rate_limiter=limiter)
    create(timeline, Message("x"))
    until(lambda: worker.totals.done == 1)
    assert worker.trouble() == ""
    no_number: Any = "0-9"
    monkeypatch.setattr(manager, "sync", lambda request: Reply.scalar(Kind.ANSWER, units=no_number))
    create(timeline, *many(100))
    until(worker.trouble)
    assert "its limiter asks for no capacity any more" in worker.trouble()
    assert worker.unready() == worker.trouble()


def test_one_that_is_evicted_from_its_limit_gives_back_what_it_cannot_begin(
    timeline: Timeline, run: Made
) -> None:
    manager = MemoryLeaseManager()
    limiter = SharedResource(
        shared_capacity=20, lease_manager=manager, max_interval=0.25, factor=10
    )
    worker = run(Noted(), rate_limiter=limiter)
    create(timeline, *many(100))
    until(lambda: worker.totals.done and worker.waiting)
    assert worker.unready() == ""
    view = manager.look()
    assert view is not None
    assert manager.evict(view.instances[0].instance)
    until(lambda: "evicted it from its limit" in worker.unready())
    until(lambda: timeline.stats().processing == 0)
    assert worker.waiting == 0
    until(lambda: timeline.stats().new == 100 - worker.totals.done)
    assert worker.totals.lost == 0
    assert worker.trouble() == "", "it is for the operator to restart it"


def test_one_whose_limit_has_another_lease_time_is_not_ready_until_an_operator_changes_it(
    timeline: Timeline, run: Made
) -> None:
    manager = MemoryLeaseManager(lease_time=5)
    manager.sync(Request.scalar("another", 1, Terms.scalar(20, 10, 1_000, 9_000)))
    limiter = SharedResource(shared_capacity=20, lease_manager=manager, max_interval=0.25)
    worker = run(Noted(), rate_limiter=limiter)
    create(timeline, *many(3))
    until(lambda: "another lease time or period" in worker.unready())
    assert worker.trouble() == "", "a restart would not repair it"
    manager.set_terms(lease_time=5)
    until(lambda: worker.totals.done == 3)
    assert worker.unready() == ""
