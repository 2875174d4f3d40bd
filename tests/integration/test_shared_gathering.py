"""What a SharedResource says of the operation it gathers for (law C4)."""

from __future__ import annotations

import time

from limiters import MemoryLeaseManager, SharedResource
from limiters.leases.messages import Reply, Request


class Recorder(MemoryLeaseManager):
    """Notes what it is asked."""

    def __init__(self) -> None:
        super().__init__(lease_time=0.4)
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
    with limiter:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            limiter.acquire(20)
    waited = [request.waited_ms for request in manager.requests if request.gathering]
    assert waited
    assert max(waited) < 1_000
