"""The queue of callers that wait for capacity of a limiter without a Batcher.

A caller may be interrupted at any point: by Ctrl-C, by an exception that a signal handler raises,
by a loop that stops. So the first caller keeps its turn only as long as it continues to ask. A
caller that has not asked for `PATIENCE` seconds loses its turn to those behind it. If it asks again
later, it is back in its old place.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import itertools
import math
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from limiters._costs import AnyCost, is_covered
from limiters._resource.reservation import Receipt, Reservation
from limiters._support.clock import Clock
from limiters._support.validation import ArgumentError, Seconds, optional_seconds
from limiters.errors import ExceedsCapacityError, ImproperOrderError, LimiterStoppedError
from limiters.limits import Limits

SOONEST = 0.001
"""The shortest wait in seconds before the limiter is asked again."""

LATEST = 0.05
"""The longest wait in seconds, since capacity may come earlier than predicted."""

PATIENCE = 1.0
"""Seconds without asking after which the first caller loses its turn."""


class Grantor(Protocol):
    """The part of a limiter that its queue uses."""

    @property
    def limits(self) -> Limits: ...
    @property
    def max_capacity(self) -> AnyCost: ...
    @property
    def started(self) -> bool: ...
    def give_me(self, target: AnyCost, claimant: object = None) -> None: ...
    def take(self, cost: AnyCost, claimant: object, receipt: Receipt) -> bool: ...
    def withdraw(self, receipt: Receipt) -> None: ...
    def ready_at(self, cost: AnyCost) -> float: ...


class QueuedCaller:
    """One caller in the queue; `wake` may be called on any thread."""

    __slots__ = ("asked_at", "cost", "gone", "number", "wake")

    _numbers = itertools.count()

    def __init__(self, cost: AnyCost, wake: Callable[[], object]) -> None:
        self.cost = cost
        self.wake = wake
        self.number = next(self._numbers)
        self.asked_at = 0.0
        """The time when it asked last, or became the first."""
        self.gone = False
        """Whether it will not ask again."""


class AcquireQueue:
    """Serves callers in the order in which they come: only the first asks the limiter.
    Thread-safe."""

    def __init__(self, limiter: Grantor, clock: Clock) -> None:
        self._limiter = limiter
        self._clock = clock
        # A signal handler may call a method that its thread is in.
        self._lock = threading.RLock()
        self._line: list[QueuedCaller] = []
        self._first: QueuedCaller | None = None
        self._demand: AnyCost = 0.0
        self.left_behind = False
        """Whether this is a copy in a forked child: its callers, and what they were charged, are in
        the parent."""

    @property
    def limits(self) -> Limits:
        """The limits of the limiter."""
        return self._limiter.limits

    def wake(self) -> None:
        """Wake all callers: capacity may have come, or the limiter was stopped."""
        for waiter in self.tidy():
            waiter.wake()
        self.tidy()  # the loops of some may have been closed

    def tidy(self) -> list[QueuedCaller]:
        """Remove callers that will not ask again, and return those that are left."""
        if not self._line:
            return []
        with self._lock:
            self._forget_the_lost(time.monotonic())
            self._set_demand()
            return list(self._line)

    def acquire(self, cost: object, timeout: Seconds | None) -> bool:
        """Wait until `cost` is granted, and spend it; False if that takes longer than `timeout`."""
        return self.take(self._without_end(cost), _seconds_of(timeout), Receipt())

    async def acquire_async(self, cost: object, timeout: Seconds | None) -> bool:
        """Wait and spend as `acquire` does, for coroutines."""
        return await self.take_async(self._without_end(cost), _seconds_of(timeout), Receipt())

    def reserve(self, cost: object, timeout: Seconds | None) -> Reservation:
        """Return a reservation, which waits for `cost` when its block begins, and ends with the
        block."""
        checked = self._checked(cost)
        advice = "add them to the cost; what is no call may be spent with acquire()"
        self.limits.check_call("cost", checked, advice)
        return Reservation(checked, _seconds_of(timeout), self, self._clock)

    def take(self, cost: AnyCost, timeout: float | None, receipt: Receipt) -> bool:
        """Wait until `cost` is granted, and charge it; False if that takes longer than `timeout`.
        If an exception interrupts the wait, nothing is charged."""
        try:
            deadline = self._deadline(timeout)
            return self._is_there(cost, receipt) or self._take(cost, deadline, receipt)
        except BaseException:
            self.withdraw(receipt)
            raise

    async def take_async(self, cost: AnyCost, timeout: float | None, receipt: Receipt) -> bool:
        """Wait and charge as `take` does, for coroutines."""
        try:
            deadline = self._deadline(timeout)
            if self._is_there(cost, receipt):
                return True
            return await self._take_async(cost, deadline, receipt)
        except BaseException:
            self.withdraw(receipt)
            raise

    def withdraw(self, receipt: Receipt) -> None:
        """Undo the charge of `receipt`, whose call is not made. Idempotent."""
        self._limiter.withdraw(receipt)

    def _is_there(self, cost: AnyCost, receipt: Receipt) -> bool:
        """Take the capacity if it is there and no caller waits. A cost that need not wait is no
        demand: the limiter counts it as spent."""
        return not self._line and self._limiter.take(cost, self, receipt)

    def _take(self, cost: AnyCost, deadline: float, receipt: Receipt) -> bool:
        gate: queue.SimpleQueue[None] = queue.SimpleQueue()
        waiter = QueuedCaller(cost, lambda: gate.put(None))
        try:
            while not self._granted(waiter, receipt):
                wait = self._wait(waiter, deadline)
                if wait <= 0:
                    return False
                with contextlib.suppress(queue.Empty):
                    gate.get(timeout=wait)
            return True
        finally:
            waiter.gone = True
            self._leave()

    async def _take_async(self, cost: AnyCost, deadline: float, receipt: Receipt) -> bool:
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(gate.set)
            except RuntimeError:  # the loop was closed
                waiter.gone = True

        waiter = QueuedCaller(cost, wake)
        try:
            while not self._granted(waiter, receipt):
                wait = self._wait(waiter, deadline)
                if wait <= 0:
                    return False
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await gate.wait()
                gate.clear()
            return True
        finally:
            waiter.gone = True
            self._leave()

    def _checked(self, cost: object) -> AnyCost:
        checked = self._limiter.limits.checked("cost", cost)
        self._check_possible(checked)
        return checked

    def _without_end(self, cost: object) -> AnyCost:
        checked = self._checked(cost)
        if ends := self._limiter.limits.ends_of(checked):
            names = " and ".join(ends) or "the limit"
            raise ArgumentError(
                "cost",
                cost,
                f"be without {names}, which lasts until the call has ended",
                "acquire() cannot know when that is; use: with limiter.reserve(cost)",
            )
        return checked

    def _check_possible(self, cost: AnyCost) -> None:
        most = self._limiter.max_capacity
        if not is_covered(most, cost):
            raise ExceedsCapacityError(cost, most, windows=self._limiter.limits.tightest_windows)

    def _deadline(self, timeout: float | None) -> float:
        if not self._limiter.started:
            raise ImproperOrderError("this limiter is not started; call start() first")
        return math.inf if timeout is None else self._clock.now() + timeout

    def _granted(self, waiter: QueuedCaller, receipt: Receipt) -> bool:
        with self._lock:
            now = waiter.asked_at = time.monotonic()
            if waiter not in self._line:
                bisect.insort(self._line, waiter, key=lambda one: one.number)
            self._forget_the_lost(now)
            self._set_demand()
            if self._line[0] is not waiter:
                return False
        self._check_possible(waiter.cost)  # the capacity may have changed meanwhile
        return self._limiter.take(waiter.cost, self, receipt)

    def _wait(self, waiter: QueuedCaller, deadline: float) -> float:
        """Return how long to wait before the next attempt; zero or less after the deadline."""
        if not self._limiter.started:
            raise LimiterStoppedError("the limiter was stopped while this waited for capacity")
        left = deadline - self._clock.now()
        with self._lock:
            ahead = self._line.index(waiter) if waiter in self._line else 0
        if ahead:  # each caller ahead may be lost
            return min(left, ahead * PATIENCE)
        ready = self._limiter.ready_at(waiter.cost) - self._clock.now()
        return min(left, max(SOONEST, min(ready, LATEST)))

    def _leave(self) -> None:
        for waiter in self.tidy()[:1]:
            waiter.wake()

    def _set_demand(self) -> None:
        # Callers hold the lock, so that an older demand never replaces a newer one.
        wanted = self._limiter.limits.sum(waiter.cost for waiter in self._line)
        if wanted != self._demand:
            self._limiter.give_me(wanted, self)
            self._demand = wanted

    def _forget_the_lost(self, now: float) -> None:
        self._line[:] = [waiter for waiter in self._line if not waiter.gone]
        while self._line:
            first = self._line[0]
            if first is not self._first:
                # From now on it has to ask. Before it was the first it may have waited for long.
                first.asked_at = now
                self._first = first
                first.wake()
            if now - first.asked_at <= PATIENCE and not first.gone:
                return
            del self._line[0]
        self._first = None


def _seconds_of(timeout: Seconds | None) -> float | None:
    return optional_seconds("timeout", timeout, zero=True)
