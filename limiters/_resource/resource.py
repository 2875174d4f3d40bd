"""What all limiters here have in common: a life, listeners, and a line of those who acquire."""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Self

from limiters import events
from limiters._costs import AnyCost
from limiters._resource.acquire_queue import AcquireQueue
from limiters._resource.reservation import Receipt, Reservation
from limiters._resource.turns import Turns
from limiters._resource.wake_ups import WakeUps
from limiters._support.clock import Clock, clock_of
from limiters._support.forking import begin_in_child
from limiters._support.validation import Seconds
from limiters.errors import ImproperOrderError
from limiters.events import Emitter, Event, Listener
from limiters.limiter import Ending, Grant
from limiters.limits import Limits

_all: weakref.WeakSet[Resource] = weakref.WeakSet()


class Resource(ABC):
    """Capacity that can be had. In a forked child it begins anew, not started. Thread-safe."""

    EVENTS: ClassVar[frozenset[str]] = events.LIMITER_EVENTS

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock_of(clock)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        """Makes all that belongs to one process; called again in a forked child."""
        # A signal handler may call what its own thread was just doing.
        self._lock = threading.RLock()
        self._emitter = Emitter(type(self).__name__, self.EVENTS)
        self._wake_ups = WakeUps()
        self._line = AcquireQueue(self, self._clock)
        self._turns = Turns()
        self._demands: dict[object, AnyCost] = {}
        self._started = self._stopped = self._left = False
        self._leaving = threading.RLock()

    @property
    def clock(self) -> Clock:
        """The clock by which `ready_at` tells times."""
        return self._clock

    @property
    def evicted(self) -> bool:
        """Whether an operator has shut it out: it gets no shared capacity any more."""
        return False

    @property
    def broken(self) -> Exception | None:
        """What keeps it for good from getting more capacity; None if nothing does."""
        return None

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """What it allows, by dimension."""

    @property
    @abstractmethod
    def max_capacity(self) -> AnyCost:
        """What could be had at most in one period."""

    def give_me(self, target: AnyCost, claimant: object = None) -> None:
        """Says how much waits to be spent; several who ask are told apart as claimants."""
        target = self.limits.checked("target", target)
        with self._lock:
            before = self._demand
            if target:
                self._demands[claimant] = target
            else:  # who waits for nothing stands in nobody's way
                self._demands.pop(claimant, None)
                self._turns.end(claimant)
            demand = self._demand
            self._follow_demand()
        if demand != before:
            self._emitter.emit(events.TARGET, demand)

    @abstractmethod
    def _follow_demand(self) -> None:
        """The demand may be another one. For who has the lock."""

    @abstractmethod
    def grant(self, up_to: AnyCost, at_least: AnyCost = 0.0, claimant: object = None) -> Grant:
        """Sets aside up to `up_to` of what may be spent now, possibly nothing."""

    @abstractmethod
    def take(self, cost: AnyCost, claimant: object, receipt: Receipt) -> bool:
        """Charges `cost` as begun now, if that may be; otherwise `claimant` waits for its turn.
        Nothing is set aside, and whatever interrupts it, `receipt` can cancel what was charged."""

    @abstractmethod
    def ready_at(self, cost: AnyCost) -> float:
        """When it is worth asking again for `cost`."""

    @property
    def _demand(self) -> AnyCost:
        """What all claimants together wait for. For who has the lock."""
        # A copy, since a signal handler may acquire while costs are added up.
        return sum(list(self._demands.values()), self.limits.nothing)

    @abstractmethod
    def _provision(self) -> None:
        """It was started."""

    @abstractmethod
    def _leave(self) -> None:
        """It is stopped, and whoever waited was told; listeners still listen."""

    @property
    def started(self) -> bool:
        """Whether `start` was called, and `stop` was not."""
        return self._started and not self._stopped

    def start(self) -> None:
        """Begins to hold capacity. Returns at once: `provision-done` says when it is there.

        A Batcher starts a limiter that nobody started. What interrupts it stops the limiter.
        """
        mine = False
        try:
            with self._lock:
                if self._started:
                    raise ImproperOrderError(
                        "this limiter was already started; make a new one to start over"
                    )
                self._started = mine = True
            self._emitter.emit(events.PROVISION_START)
            self._provision()
        except BaseException:
            if mine:  # half started, whoever acquires would wait for ever
                self.stop()
            raise

    def stop(self) -> None:
        """Gives back what it holds, raises `shutdown`, ends its listeners. Idempotent: a second
        call also ends what an interrupted one began."""
        with self._lock:
            if not self._started:
                raise ImproperOrderError("this limiter was never started; call start() first")
            self._stopped = True
        if not self._leaving.acquire(blocking=False):
            return  # another thread is at it
        try:
            self._end()
        finally:
            self._leaving.release()

    def _end(self) -> None:
        if self._left:
            return
        self._line.wake()
        self._leave()
        if not self._left:  # a signal handler may have done it meanwhile
            self._emitter.emit(events.SHUTDOWN)
            self._wake_ups.ring()
            self._emitter.close()
            self._left = True

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def add_wake_up(self, call: Callable[[], object]) -> Ending:
        """Has `call()` called whenever it holds more, or less, or is stopped."""
        return self._wake_ups.add(call)

    def _changed(self) -> None:
        """It holds more, or less: whoever waits looks again."""
        self._line.wake()
        self._wake_ups.ring()

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Calls `fn(event)` for the events named, or for all of them."""
        return self._emitter.add_listener(fn, *names)

    def acquire(self, cost: float | Mapping[str, float], timeout: Seconds | None = None) -> bool:
        """Waits until `cost` may be spent, and spends it; False if that took too long.

        First come first served, in all dimensions at one instant. Raises ExceedsCapacityError for
        what could never be had, ArgumentError for what lasts as long as a call (calls in flight),
        which takes `reserve`, and LimiterStoppedError if the limiter is stopped meanwhile.
        Thread-safe.
        """
        return self._line.acquire(cost, timeout)

    async def acquire_async(
        self, cost: float | Mapping[str, float], timeout: Seconds | None = None
    ) -> bool:
        """The same for coroutines."""
        return await self._line.acquire_async(cost, timeout)

    def reserve(
        self, cost: float | Mapping[str, float], timeout: Seconds | None = None
    ) -> Reservation:
        """`cost` for one call, to be made in the block of `with` or `async with`.

        The block begins when all of the cost may be spent, first come first served with those who
        `acquire`; calls in flight are free again when it ends, whatever ends it. Where the wait
        takes longer than `timeout`, `with` raises ReserveTimeoutError, and nothing is charged.
        `settle` of the reservation says in its block what the call costs in truth.
        Raises ExceedsCapacityError for what could never be had. Thread-safe; each reservation is
        for one block.
        """
        return self._line.reserve(cost, timeout)


def _begin_in_child() -> None:
    # Locks may be held, capacity set aside, by threads that stayed in the parent, and leases are
    # the parent's.
    for limiter in list(_all):
        limiter._begin()


begin_in_child(_begin_in_child)
