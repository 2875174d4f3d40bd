"""Run an EventTimeBuilder in real time and send its batches through a Batcher."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Any, Generic, TypeVar

from dispatcher.batcher import Batcher
from dispatcher.builders import Batch, EventTimeBuilder
from dispatcher.builders._times import seconds_between
from dispatcher.errors import BatcherStoppedError, ImproperOrderError
from dispatcher.operation import Operation
from dispatcher.senders._placing import Placed, give_up, place
from dispatcher.senders.clocks import ArrivalClock, EpochClock
from dispatcher.watcher import Watcher
from limiters._support.validation import Seconds, count, flag, function, optional_seconds

M = TypeVar("M")
_log = logging.getLogger("dispatcher.senders")


class EventTimeDriver(Generic[M]):
    """Raises each batch of `builder` to `watcher` when it is due, also if no further message
    arrives.

    Each batch becomes one operation, whose payload it is. It is never split, nor combined with
    another batch. Between its construction and `stop`, only the driver may use the builder.

    * `cost`: a function that takes a Batch and returns its cost. By default the number of its
      messages.
    * `order_key`: a function that takes a Batch and returns the key that it stays in order with:
      see Operation. By default all batches of one driver are sent one after the other, in the order
      they closed.
    * `clock`: gives messages their time of arrival. EpochClock by default. UtcClock, or a clock of
      yours, if the builder closes batches by event times that are datetimes.
    * `max_waiting`: how many closed batches may wait for room in the Batcher.

    Thread-safe. The builder's `key` and `event_time` are called under a lock, and should return
    quickly. Leaving the `with` block closes and sends all batches; leaving it by an exception does
    not. Leave it before the Batcher stops.

    >>> from dispatcher import Batcher, Watcher
    >>> from dispatcher.senders import EventTimeDriver
    >>> from dispatcher.builders import EventTimeBuilder
    >>> builder = EventTimeBuilder(5, 0.1, key="type", event_time="at")
    >>> watcher = Watcher(lambda batch: print(len(batch[0].payload.messages), "messages"))
    >>> with Batcher() as batcher, EventTimeDriver(builder, batcher, watcher) as driver:
    ...     for number, letter in enumerate("abc"):
    ...         driver.add({"type": letter, "at": 100 + number})
    3 messages
    """

    def __init__(
        self,
        builder: EventTimeBuilder[M],
        batcher: Batcher,
        watcher: Watcher,
        *,
        cost: Callable[[Batch[M]], float] | None = None,
        order_key: Callable[[Batch[M]], Hashable] | None = None,
        clock: ArrivalClock | None = None,
        max_waiting: int = 1_000,
    ) -> None:
        for name, given in (("cost", cost), ("order_key", order_key)):
            if given is not None:
                function(name, given)
        self._builder = builder
        self._batcher = batcher
        self._watcher = watcher
        self._cost = cost or (lambda batch: len(batch.messages))
        mine = object()
        self._order_key = order_key or (lambda batch: mine)
        self._clock = clock or EpochClock()
        self._max_waiting = count("max_waiting", max_waiting)
        self._changed = threading.Condition()
        self._closed: deque[Batch[M]] = deque()
        """Closed batches that the Batcher has not accepted yet."""
        self._wake: Any = None
        """The deadline until which the thread sleeps."""
        self._stopping = False
        self._given_up = False
        self._batcher_stopped = False
        self._thread = threading.Thread(target=self._run, name="dispatcher-driver", daemon=True)
        self._started = False

    def start(self) -> None:
        """Start to take messages, and to send batches that are due."""
        with self._changed:
            if self._started:
                raise ImproperOrderError("this driver was started before; make a new one")
            # Read the clock here, so that a clock of another kind than the builder's raises an
            # error in the caller.
            self._closed += self._builder.advance(self._clock.now())
            self._started = True
        self._thread.start()

    def add(self, message: M) -> None:
        """Add a message that arrives now. Block while too many closed batches wait.

        Raise MeasurementError if the message cannot be used, for example if its time is in
        milliseconds and the clock's in seconds; BatcherStoppedError if the Batcher has stopped.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._closed) < self._max_waiting or self._over)
            if self._batcher_stopped:
                raise BatcherStoppedError
            if self._stopping or not self._started:
                raise ImproperOrderError("add() belongs between start() and stop()")
            now = self._clock.now()
            self._builder.check_unit(message, now)
            self._closed += self._builder.add(message, now)
            if self._closed or self._builder.deadline != self._wake:
                self._changed.notify_all()

    def stop(self, flush: bool = True, timeout: Seconds | None = None) -> list[Batch[M]]:
        """Stop taking messages. With `flush`, close and send all batches; without it, open batches
        stay in the builder and can be saved by its `dump`. Return the closed batches that the
        Batcher did not accept within `timeout` seconds. Idempotent."""
        flush = flag("flush", flush)
        limit = optional_seconds("timeout", timeout, zero=True)
        with self._changed:
            if not self._started:
                raise ImproperOrderError("this driver was never started; call start() first")
            if flush and not self._stopping:
                self._closed += self._builder.flush()
            self._stopping = True
            self._changed.notify_all()
        self._thread.join(limit)
        self._given_up = True
        self._thread.join()
        return list(self._closed)

    def look(self) -> None:
        """Make the driver read its clock now: for a clock that is set by hand."""
        with self._changed:
            self._changed.notify_all()

    def __enter__(self) -> EventTimeDriver[M]:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        unsent = self.stop() if error is None else self.stop(flush=False, timeout=0)
        if unsent:
            facts = {"happening": "not-sent", "batches": len(unsent)}
            _log.warning("%d closed batches were not sent", len(unsent), extra=facts)

    # Runs on the thread.

    @property
    def _over(self) -> bool:
        return self._stopping or self._batcher_stopped

    def _run(self) -> None:
        try:
            while (batch := self._next()) is not None:
                placed = self._place(batch)
                with self._changed:
                    if placed in (Placed.ACCEPTED, Placed.REFUSED):
                        self._closed.popleft()
                    self._batcher_stopped = placed is Placed.STOPPED
                    self._changed.notify_all()
        except BaseException:
            # A clock of the user's may raise. No caller may wait for a thread that has ended.
            facts = {"happening": "driver-broke"}
            _log.critical("the driver has failed and is stopped", exc_info=True, extra=facts)
            with self._changed:
                self._batcher_stopped = True
                self._changed.notify_all()

    def _next(self) -> Batch[M] | None:
        """Wait for a batch to send. Return None if there will be none."""
        with self._changed:
            while not (self._batcher_stopped or self._given_up):
                if not self._stopping:
                    self._closed += self._builder.advance(self._clock.now())
                if self._closed:
                    return self._closed[0]
                if self._stopping:
                    break
                self._wake = self._builder.deadline
                self._changed.wait(self._patience())
            return None

    def _patience(self) -> float | None:
        if self._wake is None:
            return None
        left = seconds_between(self._clock.now(), self._wake)
        return max(0.0, min(left, threading.TIMEOUT_MAX))

    def _place(self, batch: Batch[M]) -> Placed:
        try:
            operation = Operation(
                self._watcher, self._cost(batch), batch, key=self._order_key(batch)
            )
        except Exception as error:  # functions of the user, and the values they return
            give_up(Operation(self._watcher, 0, batch), error)
            return Placed.REFUSED
        return place(self._batcher, [operation])
