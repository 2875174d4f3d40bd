"""C2: a SharedResource is stopped while a grant of it is open."""

from __future__ import annotations

from limiters import MemoryLeaseManager, SharedResource
from limiters._support.clock import clock_of
from tests.waiting import until


def test_c2_one_that_stops_with_an_open_grant_keeps_just_that() -> None:
    now = clock_of(None).now
    manager = MemoryLeaseManager("orders", lease_time=600)
    one, other = (
        SharedResource(shared_capacity=1_000, factor=50, lease_manager=manager, period=60)
        for _ in range(2)
    )
    one.start()
    one.give_me(1_000)
    until(lambda: one.capacity >= 1_000)
    grant = one.grant(920, at_least=920)
    assert grant.spend(900).started(now())
    later = grant.spend(20)
    one.stop()
    assert one.capacity < 21
    with other:
        other.give_me(1_000)
        until(lambda: other.capacity > 979)
    assert later.started(now())
