"""ProvisionedResource: a fixed limit for one process."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

from limiters import events
from limiters.arguments import Seconds, amount, seconds
from limiters.clock import Clock, MonotonicClock
from limiters.errors import ImproperOrderError
from limiters.events import Emitter, Event, Listener
from limiters.line import Line
from limiters.standing import Standing
from limiters.turns import GRACE, Turns
from limiters.window import Spend, WindowLedger

_all: weakref.WeakSet[ProvisionedResource] = weakref.WeakSet()


class ProvisionedResource:
    """Never more than `max_capacity` in any `period`, by whatever Batchers share it.

    It knows no other process: several of them need a shared limit instead. In a forked child
    it begins anew, as a limit of that process. Thread-safe.

    >>> from limiters import ProvisionedResource
    >>> limiter = ProvisionedResource(20_000)        # 20,000 request units a second
    >>> limiter.capacity
    20000
    """

    def __init__(
        self, max_capacity: float, *, period: Seconds = 1.0, clock: Clock | None = None
    ) -> None:
        self._max_capacity = amount("max_capacity", max_capacity)
        self._clock = clock or MonotonicClock()
        self._period = seconds("period", period)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._ledger = WindowLedger(self._max_capacity, self._period)
        self._lock = threading.Lock()
        self._turns = Turns()
        self._emitter = Emitter(type(self).__name__, events.LIMITER_EVENTS)
        self._demands: dict[object, float] = {}
        self._line = Line(self, self._clock)
        self._started = False
        self._stopped = False

    def __repr__(self) -> str:
        return f"ProvisionedResource({self._max_capacity:g}, period={self._ledger.period:g})"

    @property
    def max_capacity(self) -> float:
        """What may be spent in one period."""
        return self._max_capacity

    @property
    def period(self) -> float:
        """The seconds in which it may be spent."""
        return self._period

    @property
    def capacity(self) -> float:
        """The same: all of it is held from the start."""
        return self._max_capacity

    @property
    def burst(self) -> float:
        """What may go at once after a rest."""
        return self._ledger.burst(self._clock.now())

    @property
    def started(self) -> bool:
        """Whether `start` was called, and `stop` was not."""
        return self._started and not self._stopped

    def standing(self) -> Standing:
        """What it allows, what waits, what was spent."""
        with self._lock:
            return Standing(
                name="",
                shared=0.0,
                reserved=self._max_capacity,
                max=self._max_capacity,
                demand=sum(self._demands.values()),
                spent_reserved=self._ledger.total(),
            )

    def start(self) -> None:
        """Announces the capacity. A Batcher starts a limiter that nobody started."""
        with self._lock:
            if self._started:
                raise ImproperOrderError(
                    "this limiter was already started; make a new one to start over"
                )
            self._started = True
        self._emitter.emit(events.PROVISION_START)
        self._emitter.emit(events.PROVISION_DONE)
        self._emitter.emit(events.CAPACITY, self._max_capacity)

    def stop(self) -> None:
        """Raises `shutdown` and ends its listeners. Again is no error."""
        with self._lock:
            if not self._started:
                raise ImproperOrderError("this limiter was never started; call start() first")
            if self._stopped:
                return
            self._stopped = True
        self._line.wake()
        self._emitter.emit(events.SHUTDOWN)
        self._emitter.close()

    def set_capacity(self, capacity: float) -> None:
        """Changes the limit from now on; what was spent under the old one still counts."""
        with self._lock:
            self._max_capacity = amount("capacity", capacity)
            self._ledger.set_capacity(self._max_capacity)
        self._emitter.emit(events.CAPACITY, capacity)
        self._line.wake()

    def give_me(self, target: float, claimant: object = None) -> None:
        """Takes note of the demand; a fixed capacity does not follow it."""
        with self._lock:
            before = sum(self._demands.values())
            self._demands[claimant] = target
            if not target:
                del self._demands[claimant]
            after = sum(self._demands.values())
        if before != after:
            self._emitter.emit(events.TARGET, after)

    def grant(
        self, up_to: float, at_least: float = 0.0, claimant: object = None
    ) -> ProvisionedGrant:
        """Sets aside up to `up_to` of what may be spent now, possibly nothing."""
        with self._lock:
            now = self._clock.now()
            free = 0.0
            if self._turns.is_for(claimant, now):
                free = min(up_to, self._ledger.available(now, at_least))
            if free >= at_least or claimant is None:
                self._turns.end(claimant)
            else:
                until = self._ledger.ready_at(at_least, now) + GRACE
                self._turns.wait(claimant, at_least, until)
            self._ledger.hold(free)
        return ProvisionedGrant(self, free)

    def ready_at(self, cost: float) -> float:
        """When it is worth asking again for `cost`."""
        with self._lock:
            return self._ledger.ready_at(cost, self._clock.now())

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Calls `fn(event)` for the events named, or for all of them."""
        return self._emitter.add_listener(fn, *names)

    def acquire(self, cost: float, timeout: Seconds | None = None) -> bool:
        """Waits until `cost` may be spent, and spends it; False if that took too long.

        First come first served. Raises TooExpensiveError for what could never be had, and
        LimiterStoppedError if the limiter is stopped meanwhile. Thread-safe.
        """
        return self._line.acquire(cost, timeout)

    async def acquire_async(self, cost: float, timeout: Seconds | None = None) -> bool:
        """The same for coroutines."""
        return await self._line.acquire_async(cost, timeout)

    def charge(self, cost: float) -> Spend:
        """Charges `cost` of what a grant holds."""
        with self._lock:
            return self._ledger.charge(cost, self._clock.now())

    def give_back(self, unused: float) -> None:
        """Takes back what a grant did not spend."""
        with self._lock:
            self._ledger.release(unused)

    def __enter__(self) -> ProvisionedResource:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class ProvisionedGrant:
    """One deal with a ProvisionedResource, for the one thread that made it."""

    def __init__(self, limiter: ProvisionedResource, amount: float) -> None:
        self.amount = amount
        self._limiter = limiter
        self._unused = amount

    def spend(self, cost: float) -> Spend:
        """Charges `cost` of it for a batch that is about to start."""
        self._unused -= cost
        return self._limiter.charge(cost)

    def close(self) -> None:
        """Gives back what was not spent."""
        unused, self._unused = self._unused, 0.0
        self._limiter.give_back(unused)


def _begin_in_child() -> None:
    # Locks may be held, and capacity set aside, by threads that stayed in the parent.
    for limiter in list(_all):
        limiter._begin()


os.register_at_fork(after_in_child=_begin_in_child)
