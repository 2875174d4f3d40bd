"""The base of all limiters: start and stop, listeners, and the queue of `acquire`."""

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
    """The base of limiters. In a forked child it starts over, and is not started. Thread-safe."""

    EVENTS: ClassVar[frozenset[str]] = events.LIMITER_EVENTS

    def __init__(self, clock: Clock | None) -> None:
        self._clock = clock_of(clock)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        """Make all state that belongs to one process; called again in a forked child."""
        # A signal handler may call a method that its thread is in.
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
        """The clock of the times that `ready_at` returns."""
        return self._clock

    @property
    def evicted(self) -> bool:
        """Whether an operator has evicted it: then it gets no shared capacity any more."""
        return False

    @property
    def broken(self) -> Exception | None:
        """The error because of which it will never get more capacity; None if there is none."""
        return None

    @property
    @abstractmethod
    def limits(self) -> Limits:
        """The limits by dimension."""

    @property
    @abstractmethod
    def max_capacity(self) -> AnyCost:
        """The most that could be spent in one period."""

    def give_me(self, target: AnyCost, claimant: object = None) -> None:
        """Set how much waits to be spent. Users of one limiter are distinguished as claimants."""
        target = self.limits.checked("target", target)
        with self._lock:
            before = self._demand
            if target:
                self._demands[claimant] = target
            else:  # a claimant that waits for nothing must not block others
                self._demands.pop(claimant, None)
                self._turns.end(claimant)
            demand = self._demand
            self._follow_demand()
        if demand != before:
            self._emitter.emit(events.TARGET, demand)

    @abstractmethod
    def _follow_demand(self) -> None:
        """Called with the lock when the demand may have changed."""

    @abstractmethod
    def grant(self, up_to: AnyCost, at_least: AnyCost = 0.0, claimant: object = None) -> Grant:
        """Set aside up to `up_to` of the capacity that may be spent now, possibly nothing."""

    @abstractmethod
    def take(self, cost: AnyCost, claimant: object, receipt: Receipt) -> bool:
        """Charge `cost` as begun now, if there is capacity; otherwise `claimant` waits for its
        turn. Nothing is set aside. If an exception interrupts it, `withdraw` undoes the charge."""

    def withdraw(self, receipt: Receipt) -> None:
        """Undo the charge of `receipt`, whose call is not made. Idempotent."""
        with self._lock:
            payment, receipt.payment = receipt.payment, None
            if payment is None:
                return
            payment.withdraw(self._clock.now())
        self._changed()

    @abstractmethod
    def ready_at(self, cost: AnyCost) -> float:
        """Return the time when a new request for `cost` may succeed."""

    @property
    def _demand(self) -> AnyCost:
        """The sum of what all claimants wait for. Callers hold the lock."""
        # A copy, since a signal handler may acquire while costs are added up.
        return sum(list(self._demands.values()), self.limits.nothing)

    @abstractmethod
    def _provision(self) -> None:
        """Called when the limiter is started."""

    @abstractmethod
    def _leave(self) -> None:
        """Called when the limiter is stopped, after waiting callers were woken. Listeners still
        run."""

    @property
    def started(self) -> bool:
        """Whether `start` was called, and `stop` was not."""
        return self._started and not self._stopped

    def start(self) -> None:
        """Begin to hold capacity. Return immediately: the event `provision-done` comes when
        capacity can be granted.

        A Batcher starts a limiter that is not started. If an exception interrupts `start`, the
        limiter is stopped.
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
            if mine:  # callers would wait without end for a limiter that is half started
                self.stop()
            raise

    def stop(self) -> None:
        """Return all capacity, emit `shutdown`, and end the listeners. Idempotent: a second call
        also completes an interrupted one."""
        with self._lock:
            if not self._started:
                raise ImproperOrderError("this limiter was never started; call start() first")
            self._stopped = True
        if not self._leaving.acquire(blocking=False):
            return  # another thread stops it
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
        """Register `call`, which is called each time it holds more or less, or is stopped."""
        return self._wake_ups.add(call)

    def _changed(self) -> None:
        """Wake all that wait, since it holds more or less."""
        self._line.wake()
        self._wake_ups.ring()

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Call `fn(event)` for the events named, or for all events."""
        return self._emitter.add_listener(fn, *names)

    def acquire(self, cost: float | Mapping[str, float], timeout: Seconds | None = None) -> bool:
        """Wait until `cost` may be spent, and spend it; False if that takes longer than `timeout`.

        Callers are served in the order in which they come, in all dimensions at one instant. Raises
        ExceedsCapacityError for a cost that is never possible, ArgumentError for dimensions that
        last as long as a call (calls in flight), which need `reserve`, and LimiterStoppedError if
        the limiter is stopped meanwhile. Thread-safe.
        """
        return self._line.acquire(cost, timeout)

    async def acquire_async(
        self, cost: float | Mapping[str, float], timeout: Seconds | None = None
    ) -> bool:
        """Wait and spend as `acquire` does, for coroutines."""
        return await self._line.acquire_async(cost, timeout)

    def reserve(
        self, cost: float | Mapping[str, float], timeout: Seconds | None = None
    ) -> Reservation:
        """Return a reservation of `cost` for one call, made in a block of `with` or `async with`.

        The block begins when all of the cost may be spent, in order of arrival together with
        callers of `acquire`; calls in flight are free again when it ends, also by an exception. If
        the wait takes longer than `timeout`, `with` raises ReserveTimeoutError, and nothing is
        charged. `settle` of the reservation gives the actual cost of the call in its block. Raises
        ExceedsCapacityError for a cost that is never possible. Thread-safe; each reservation is for
        one block.
        """
        return self._line.reserve(cost, timeout)


def _begin_in_child() -> None:
    # Threads of the parent may hold locks and capacity, and leases belong to the parent.
    for limiter in list(_all):
        limiter._line.left_behind = True
        limiter._begin()


begin_in_child(_begin_in_child)
