"""A SharedResource whose thread is turned by hand, on time that is turned by hand."""

from __future__ import annotations

from collections.abc import Callable

from limiters import MemoryLeaseManager, SharedResource
from limiters.leases._messages import Reply, Request
from limiters.leases.protocol import LeaseManager
from limiters.testing import ManualClock


class Driven:
    """A limiter, its clock, and `turn()` in place of its thread."""

    def __init__(
        self,
        shared: float = 1_000,
        factor: float = 100,
        *,
        manager: LeaseManager | None = None,
        clock: ManualClock | None = None,
        reserved: float = 0,
        period: float = 1.0,
        max_interval: float = 0.5,
        weight: float = 1.0,
    ) -> None:
        self.clock = clock or ManualClock(100.0)
        self.manager = manager or MemoryLeaseManager(lease_time=2, clock=self.clock)
        self.limiter = SharedResource(
            shared_capacity=shared,
            reserved_capacity=reserved,
            factor=factor,
            lease_manager=self.manager,
            period=period,
            max_interval=max_interval,
            weight=weight,
            clock=self.clock,
        )
        self.calls = 0

    def turn(self) -> float | None:
        """Sends what is due. For how long the thread would sleep then; None: until woken."""
        while True:
            request, wait = self.limiter._next_request()
            if request is None:
                return wait
            self.calls += 1
            if not self.limiter._exchange(self.manager, request):
                return 0.0

    def run(
        self, seconds: float, each: Callable[[], object] = lambda: None, step: float = 0.01
    ) -> None:
        """Turns the time, and the thread whenever it would wake."""
        for _ in range(round(seconds / step)):
            each()
            self.turn()
            self.clock.advance(step)

    def give_me(self, target: float) -> None:
        """Wants so much, and waits until it is there."""
        self.limiter.give_me(target)
        self.turn()

    def give_up_at_once(self, target: float) -> None:
        """Wants so much, and is gone before the thread has looked."""
        self.limiter.give_me(target)
        self.limiter.give_me(0)


class Scripted(MemoryLeaseManager):
    """A lease manager whose replies the test may change."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(lease_time=2, clock=clock)
        self.change: Callable[[Request, Reply], Reply] = lambda request, reply: reply
        self.requests: list[Request] = []

    def sync(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.change(request, super().sync(request))
