"""What a SharedResource says of the operation it gathers for (law C4)."""

from __future__ import annotations

from itertools import pairwise

from dispatcher import Batcher, Operation, Watcher
from limiters import MemoryLeaseManager, SharedResource
from limiters.leases.messages import Reply, Request
from tests.servers import wait_until


class Recorder(MemoryLeaseManager):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__(lease_time=20)
        self.requests: list[Request] = []

    def sync(self, request: Request) -> Reply:
        self.requests.append(request)
        return super().sync(request)


def test_c4_each_operation_has_waited_for_itself_alone() -> None:
    """Else one that always has the next one waiting would seem to wait for ever, and be let
    through before all others as if it were dear."""
    manager = Recorder()
    limiter = SharedResource(
        shared_capacity=100, factor=100, lease_manager=manager, max_interval=0.1, period=0.2
    )
    watcher = Watcher(lambda batch: None)
    with Batcher(rate_limiter=limiter) as batcher:
        batcher.enqueue_many([Operation(watcher, 20, None) for _ in range(80)])
        batcher.drain(timeout=30)
    waited = [request.waited_ms for request in manager.requests if request.gathering]
    begun_anew = [later for earlier, later in pairwise(waited) if later < earlier]
    assert len(begun_anew) >= 3  # it would be 0


def test_c2_what_is_given_back_at_the_end_is_told_once_and_nothing_is_missed() -> None:
    told: list[tuple[str, float]] = []
    limiter = SharedResource(
        shared_capacity=400, factor=100, lease_manager=MemoryLeaseManager(), max_interval=0.1
    )
    limiter.add_listener(
        lambda event: told.append((event.name, event.value)), "allocated", "released", "failed"
    )
    with limiter:
        limiter.give_me(400)
        wait_until(lambda: [name for name, _ in told] == 4 * ["allocated"])
    assert sorted(told[4:]) == [("released", index) for index in range(4)]
