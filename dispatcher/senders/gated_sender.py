"""Connect a RegistrationGate to a Batcher: released messages become operations."""

from __future__ import annotations

import functools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from dispatcher.batcher import Batcher
from dispatcher.errors import BatcherStoppedError, ImproperOrderError
from dispatcher.operation import Operation
from dispatcher.registration import Registration, RegistrationError, RegistrationGate, Release
from dispatcher.senders._placing import Placed, give_up, place
from dispatcher.watcher import Watcher
from limiters._support.rate_limited_log import RateLimitedLog
from limiters._support.validation import ArgumentError, Seconds, function, seconds


class GatedSender:
    """Takes registrations and messages as they arrive; what the gate releases is enqueued for
    `watcher`.

    The payload of each operation is a Release, of a registration or of one message. Its key is the
    topmost ancestor of its entity. So a message never goes before the registration of its entity,
    nor a child before its parent, through every retry.

    * `cost`: a function that takes a Release and returns its cost. By default 1. If it raises, the
      error goes to the watcher's failure callback.
    * `batchable`: whether operations may share a batch with others.
    * `evict_interval`: how often a thread drops what the gate has held too long, in seconds.

    While the Batcher has no room, calls that release something block; the first to call is the
    first to be enqueued. If the Batcher has stopped, they raise BatcherStoppedError, and `unsent`
    holds what could not be enqueued. If an update moves an entity below another topmost ancestor,
    operations already enqueued are not waited for.

    Thread-safe. The gate is not closed. Leave the `with` block before the Batcher stops.

    >>> from dispatcher import Batcher, Watcher
    >>> from dispatcher.senders import GatedSender
    >>> from dispatcher.registration import MemoryEntityStore, RegistrationGate
    >>> watcher = Watcher(lambda batch: print(*(one.payload.entity for one in batch)))
    >>> gate = RegistrationGate(MemoryEntityStore())
    >>> with Batcher() as batcher, GatedSender(gate, batcher, watcher) as sender:
    ...     sender.offer("meter", 21.5)
    ...     sender.register("meter", parent="house")
    ...     sender.register("house")
    house
    meter
    meter
    """

    def __init__(
        self,
        gate: RegistrationGate,
        batcher: Batcher,
        watcher: Watcher,
        *,
        cost: Callable[[Release], float] | None = None,
        batchable: bool = False,
        evict_interval: Seconds = 1.0,
    ) -> None:
        if not isinstance(gate, RegistrationGate):
            raise ArgumentError("gate", gate, "be a RegistrationGate")
        if cost is not None:
            function("cost", cost)
        self._gate = gate
        self._batcher = batcher
        self._watcher = watcher
        self._cost = cost or (lambda release: 1)
        self._batchable = batchable
        self._interval = seconds("evict_interval", evict_interval)
        self._turn = threading.RLock()
        """Held from the gate to the Batcher, so that what the gate releases first is enqueued
        first. Reentrant: a failure callback that runs meanwhile may offer something itself."""
        self._ending = threading.Event()
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.senders"))
        self._thread = threading.Thread(target=self._evict, name="dispatcher-gate", daemon=True)
        self.unsent: list[Operation] = []
        """Released, but not enqueued, because the Batcher had stopped or an interrupt came."""

    def register(self, entity: str, *, parent: str | None = None, data: Any = None) -> None:
        """Register an entity, and enqueue what that releases. Arguments and errors are those of
        `RegistrationGate.register`."""
        with self._turn:
            self._send(self._gate.register(entity, parent=parent, data=data))

    def register_many(self, registrations: Iterable[Registration]) -> None:
        """Register several entities, and enqueue what that releases."""
        with self._turn:
            self._send(self._gate.register_many(registrations))

    def offer(self, entity: str, message: Any, *, metadata: bool = False) -> None:
        """Offer a message to the gate, and enqueue it if its entity is registered. Arguments and
        errors are those of `RegistrationGate.offer`."""
        with self._turn:
            self._send(self._gate.offer(entity, message, metadata=metadata))

    def offer_many(self, messages: Iterable[tuple[str, Any]]) -> None:
        """Offer several messages, and enqueue those whose entity is registered."""
        with self._turn:
            self._send(self._gate.offer_many(messages))

    def deregister(self, entity: str) -> list[str]:
        with self._turn:
            return self._gate.deregister(entity)

    def start(self) -> None:
        """Start the thread that drops what is held too long. The other methods work without it."""
        if self._thread.ident is not None:
            raise ImproperOrderError("this sender was started before; make a new one")
        self._thread.start()

    def stop(self) -> None:
        """Stop that thread and wait for it. Idempotent."""
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join()

    def __enter__(self) -> GatedSender:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # Called with the lock held.

    def _send(self, releases: list[Release]) -> None:
        topmost = functools.cache(self._gate.topmost)  # all of an entity goes by one key
        left = deque(part for release in releases for part in _parts(release))
        try:
            while left:
                # One by one: if one is refused, it alone goes to the failure callback.
                if self._sent(left[0], topmost):
                    left.popleft()
        finally:
            operations = [self._operation(part, topmost) for part in left]
            self.unsent += [operation for operation in operations if operation is not None]

    def _sent(self, part: Release, topmost: Callable[[str], str]) -> bool:
        """Enqueue a part. Return False if the Batcher has no room at present."""
        operation = self._operation(part, topmost)
        if operation is None:
            return True
        placed = place(self._batcher, [operation])
        if placed is Placed.STOPPED:
            raise BatcherStoppedError
        return placed is not Placed.FULL

    def _operation(self, part: Release, topmost: Callable[[str], str]) -> Operation | None:
        try:
            cost, key = self._cost(part), topmost(part.entity)
            return Operation(self._watcher, cost, part, batchable=self._batchable, key=key)
        except Exception as error:  # the gate has released it: the failure callback must be called
            give_up(Operation(self._watcher, 0, part), error)
            return None

    def _evict(self) -> None:
        while not self._ending.wait(self._interval):
            try:
                self._gate.evict()
            except RegistrationError as error:
                self._damped.log(
                    logging.WARNING,
                    "the gate could not drop what it has held too long: %s",
                    error,
                    extra={"happening": "eviction-failed", "error": type(error).__name__},
                )


def _parts(release: Release) -> Iterator[Release]:
    """The parts that are enqueued separately: the registration, and each message."""
    entity, registration, messages = release
    if registration is not None:
        yield Release(entity, registration, ())
    for message in messages:
        yield Release(entity, None, (message,))
