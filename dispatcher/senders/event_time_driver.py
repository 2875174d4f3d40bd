"""Runs an EventTimeBuilder in real time, in front of a Batcher."""

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
    """Raises each batch of `builder` to `watcher` when it is due, also if nothing more arrives.

    A batch goes as one batch of one operation, whose payload it is: never cut again, nor put
    together with another. From its making until `stop`, the driver alone uses the builder.

    * `cost`: takes a Batch and says what it costs. By default its number of messages.
    * `order_key`: takes a Batch and says what it must stay in order with: see Operation. By
      default all batches of one driver go one after the other, in the order they closed.
    * `clock`: what messages arrive by: EpochClock, unless the builder closes batches by event
      times that are datetimes; then UtcClock, or one's own.
    * `max_waiting`: how many closed batches may wait for a place in the Batcher.

    Thread-safe. The builder's `key` and `event_time` are called under a lock, and should only
    look. Leaving the `with` block closes and sends all batches; leaving it by an exception
    does not. Leave it before the Batcher stops.

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
        """Batches that the Batcher was not given yet."""
        self._wake: Any = None
        """The deadline that the thread sleeps for."""
        self._stopping = False
        self._given_up = False
        self._batcher_stopped = False
        self._thread = threading.Thread(target=self._run, name="dispatcher-driver", daemon=True)
        self._started = False

    def start(self) -> None:
        """Begins to take messages, and to send what is due."""
        with self._changed:
            if self._started:
                raise ImproperOrderError("this driver was started before; make a new one")
            # Here, so that a clock of another kind than the builder's is heard of.
            self._closed += self._builder.advance(self._clock.now())
            self._started = True
        self._thread.start()

    def add(self, message: M) -> None:
        """Takes a message that arrives now. Waits while too many closed batches wait.

        Raises MeasurementError if it cannot be used, also if it is in milliseconds where the
        clock's seconds count, and BatcherStoppedError when the Batcher takes nothing any more."""
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
        """Takes no more messages. With `flush` it closes and sends all batches; without, open
        ones stay in the builder, to be saved by its `dump`. Returns the closed batches that
        the Batcher did not take, at most within `timeout`; again gives the same."""
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
        """Makes it look at its clock: for a clock that is turned by hand."""
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

    # The thread.

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
            # A clock of the user's may raise. Nobody must wait for a thread that is gone.
            facts = {"happening": "driver-broke"}
            _log.critical("the driver has failed and is stopped", exc_info=True, extra=facts)
            with self._changed:
                self._batcher_stopped = True
                self._changed.notify_all()

    def _next(self) -> Batch[M] | None:
        """Waits for a batch that is to be sent. None: there will be none."""
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
        except Exception as error:  # the user's functions, and what they returned
            give_up(Operation(self._watcher, 0, batch), error)
            return Placed.REFUSED
        return place(self._batcher, [operation])
