"""What a Worker may spend, and how much it takes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from dispatcher import ProvisionedResource
from dispatcher.timeline import Lease, Message, Timeline
from limiters import MemoryLeaseManager, SharedResource
from limiters.leases.messages import Reply
from limiters.verifier import Spent, verify
from tests.integration.worker.handled import Made, Noted, create, dead, many
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
    timeline: Timeline, run: Made
) -> None:
    bodies = [{"units": 1}, {"units": 999}, {}]
    create(timeline, *[Message(body, id=f"m{n}") for n, body in enumerate(bodies)])
    worker = run(Noted(), rate_limiter=ProvisionedResource(100), cost="units", max_attempts=1)
    until(lambda: worker.totals.done + worker.totals.dead == 3)
    reasons = dead(timeline)
    assert "TooExpensiveError" in reasons["m1"]
    assert "has no field 'units'" in reasons["m2"]


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


def test_c5_the_backlog_is_demanded_so_that_a_share_grows_at_once(
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
        until(lambda: len(limiter.partitions) == 2 and worker.totals.done > 400)
        changes: list[float] = []
        limiter.add_listener(lambda event: changes.append(event.value), "capacity")
        other.give_me(0)
        until(lambda: len(limiter.partitions) == 40)
        # What it could use counts, not a little more each time than what it has used: even if that
        # were twice as much, five changes would be needed.
        until(lambda: changes and changes[-1] == 4_000)
        assert len(changes) < 5


def test_one_whose_limiter_asks_for_nothing_any_more_wants_to_be_restarted(
    timeline: Timeline, run: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = MemoryLeaseManager()
    limiter = SharedResource(shared_capacity=20, lease_manager=manager, max_interval=0.25)
    worker = run(Noted(), rate_limiter=limiter)
    create(timeline, Message("x"))
    until(lambda: worker.totals.done == 1)
    assert worker.trouble() == ""
    no_ranges: Any = "0-9"
    monkeypatch.setattr(manager, "sync", lambda request: Reply(held=no_ranges, lease_ms=400))
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
    assert manager.evict(view.members[0].instance)
    until(lambda: "evicted it from its limit" in worker.unready())
    until(lambda: timeline.stats().processing == 0)
    assert worker.waiting == 0
    until(lambda: timeline.stats().new == 100 - worker.totals.done)
    assert worker.totals.lost == 0
    assert worker.trouble() == "", "it is for the operator to restart it"
