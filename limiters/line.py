"""The line of those who ask a limiter for an amount and wait for it, without a Batcher."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from limiters._support.validation import Seconds, amount, optional_seconds
from limiters.clock import Clock
from limiters.errors import ImproperOrderError, LimiterStoppedError, TooExpensiveError
from limiters.float_error import covers
from limiters.limiter import Grant

SOONEST = 0.001
"""The soonest to ask the limiter again."""

LATEST = 0.05
"""The latest, since capacity may have come that nobody could foresee."""


class Grantor(Protocol):
    """What the line asks of its limiter."""

    @property
    def max_capacity(self) -> float: ...
    @property
    def started(self) -> bool: ...
    def give_me(self, target: float, claimant: object = None) -> None: ...
    def grant(self, up_to: float, at_least: float = 0.0, claimant: object = None) -> Grant: ...
    def ready_at(self, cost: float) -> float: ...


class Waiter:
    """Somebody in the line; `wake` may be called from any thread."""

    __slots__ = ("cost", "gone", "wake")

    def __init__(
        self,
        cost: float,
        wake: Callable[[], object],
        gone: Callable[[], bool] = lambda: False,
    ) -> None:
        self.cost = cost
        self.wake = wake
        self.gone = gone
        """Whether it will never go on, nor say that it leaves."""


class Line:
    """First come first served: only the first one asks the limiter. Thread-safe."""

    def __init__(self, limiter: Grantor, clock: Clock) -> None:
        self._limiter = limiter
        self._clock = clock
        self._lock = threading.Lock()
        self._line: deque[Waiter] = deque()
        self._wanted = 0.0

    def wake(self) -> None:
        """Capacity may have come, or the limiter was stopped."""
        with self._lock:
            if self._forget_the_gone():
                self._tell()
            waiters = list(self._line)
        for waiter in waiters:
            waiter.wake()

    def acquire(self, cost: float, timeout: Seconds | None) -> bool:
        """Waits until `cost` is granted, and spends it; False if that took too long."""
        cost, deadline = self._checked(cost, timeout)
        event = threading.Event()
        waiter = self._join(Waiter(cost, event.set))
        try:
            while not self._granted(waiter):
                wait = self._wait(waiter, deadline)
                if wait <= 0:
                    return False
                event.wait(None if math.isinf(wait) else wait)
                event.clear()
            return True
        finally:
            self._leave(waiter)

    async def acquire_async(self, cost: float, timeout: Seconds | None) -> bool:
        """The same, for coroutines."""
        cost, deadline = self._checked(cost, timeout)
        event = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(event.set)

        waiter = self._join(Waiter(cost, wake, loop.is_closed))
        try:
            while not self._granted(waiter):
                wait = self._wait(waiter, deadline)
                if wait <= 0:
                    return False
                try:
                    await asyncio.wait_for(event.wait(), None if math.isinf(wait) else wait)
                except TimeoutError:
                    continue
                finally:
                    event.clear()
            return True
        finally:
            self._leave(waiter)

    def _checked(self, cost: float, timeout: Seconds | None) -> tuple[float, float]:
        cost = amount("cost", cost, zero=True)
        most = optional_seconds("timeout", timeout, zero=True)
        if not self._limiter.started:
            raise ImproperOrderError("this limiter is not started; call start() first")
        if not covers(self._limiter.max_capacity, cost):
            raise TooExpensiveError(cost, self._limiter.max_capacity)
        return cost, math.inf if most is None else self._clock.now() + most

    def _join(self, waiter: Waiter) -> Waiter:
        with self._lock:
            self._forget_the_gone()
            self._line.append(waiter)
            self._wanted += waiter.cost
            self._tell()
        return waiter

    def _granted(self, waiter: Waiter) -> bool:
        if self._line[0] is not waiter:
            return False
        if not covers(self._limiter.max_capacity, waiter.cost):  # which has changed meanwhile
            raise TooExpensiveError(waiter.cost, self._limiter.max_capacity)
        grant = self._limiter.grant(waiter.cost, waiter.cost, self)
        try:
            if not covers(grant.amount, waiter.cost):
                return False
            return grant.spend(min(waiter.cost, grant.amount)).started(self._clock.now())
        finally:
            grant.close()

    def _wait(self, waiter: Waiter, deadline: float) -> float:
        """How long to wait before looking again; zero or less once it is too late."""
        if not self._limiter.started:
            raise LimiterStoppedError("the limiter was stopped while this waited for capacity")
        left = deadline - self._clock.now()
        if self._line[0] is not waiter:
            return left
        ready = self._limiter.ready_at(waiter.cost) - self._clock.now()
        return min(left, max(SOONEST, min(ready, LATEST)))

    def _leave(self, waiter: Waiter) -> None:
        with self._lock:
            if waiter in self._line:
                self._line.remove(waiter)
                self._wanted -= waiter.cost
            self._forget_the_gone()
            self._tell()
            first = self._line[0] if self._line else None
        if first is not None:
            first.wake()

    def _tell(self) -> None:
        # With the lock: of two who tell, the one who knows less must not be the last.
        if not self._line:
            self._wanted = 0.0  # and no crumbs of sums of fractions
        self._limiter.give_me(max(0.0, self._wanted), self)

    def _forget_the_gone(self) -> bool:
        """Whether those behind now stand nearer to the front."""
        before = len(self._line)
        while self._line and self._line[0].gone():
            self._wanted -= self._line.popleft().cost
        return len(self._line) < before
