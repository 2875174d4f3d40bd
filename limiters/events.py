"""Events and their listeners, which never hold up the code that emits an event."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import NamedTuple

from limiters._costs import AnyCost
from limiters._support.callables import check_plain, keep_last_raise, notify
from limiters._support.rate_limited_log import Damper, RateLimitedLog
from limiters._support.validation import ArgumentError

_log = logging.getLogger("limiters.events")

ALLOCATED = "allocated"
CAPACITY = "capacity"
CONNECTED = "connected"
CREATED_LIMIT = "created-limit"
CREATED_PARTITION = "created-partition"
DISCONNECTED = "disconnected"
ERROR = "error"
FAILED = "failed"
PERMIT = "permit"
PROVISION_DONE = "provision-done"
PROVISION_START = "provision-start"
REFUSED = "refused"
RELEASED = "released"
SHUTDOWN = "shutdown"
TARGET = "target"
UNCERTAIN = "uncertain"
VERIFIED_LIMIT = "verified-limit"
VERIFIED_PARTITION = "verified-partition"

LIMITER_EVENTS = frozenset({CAPACITY, ERROR, PROVISION_DONE, PROVISION_START, SHUTDOWN, TARGET})

SHARED_EVENTS = LIMITER_EVENTS | {
    ALLOCATED,
    CONNECTED,
    CREATED_LIMIT,
    CREATED_PARTITION,
    DISCONNECTED,
    FAILED,
    PERMIT,
    REFUSED,
    RELEASED,
    UNCERTAIN,
    VERIFIED_LIMIT,
    VERIFIED_PARTITION,
}


class Event(NamedTuple):
    """An event that listeners receive. Its value and its metadata depend on its name.

    >>> event = Event("pause", 0.5)
    >>> event.name, event.value
    ('pause', 0.5)
    """

    name: str
    """The name of the event, such as `pause`."""
    value: AnyCost = 0
    """A number: seconds, a count, a cost, the index of a partition. A cost of several dimensions is
    a mapping."""
    message: str = ""
    """A text for people; it may be empty."""
    metadata: object = None
    """An error, or the operations that the event is about."""


class Listener:
    """A registration; `remove()` ends it, and so does leaving its `with` block."""

    def __init__(
        self, emitter: Emitter, fn: Callable[[Event], object], names: frozenset[str]
    ) -> None:
        self.fn = fn
        self.names = names
        self._emitter = emitter

    def remove(self) -> None:
        """Stop listening: no event reaches the function after those already on their way."""
        self._emitter.remove(self)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class Emitter:
    """Hands events to listeners on a thread of its own, in the order they were emitted.

    `emit` only puts the event into a queue: a listener that is slow, blocks or raises neither
    breaks nor slows the code that emits. A listener that falls `MOST_WAITING` events behind loses
    the next ones, and the log says how many. Thread-safe.

    >>> emitter = Emitter("example", frozenset({"pause"}))
    >>> received = []
    >>> with emitter.add_listener(received.append, "pause"):
    ...     emitter.emit("pause", 0.5)
    ...     emitter.close()
    >>> received[0].value
    0.5
    """

    MOST_WAITING = 100_000

    def __init__(self, owner: str, names: frozenset[str]) -> None:
        self._owner = owner
        self._names = names
        self._listeners: tuple[Listener, ...] = ()
        # A signal handler may call a method that its own thread has just been running.
        self._lock = threading.RLock()
        self._waiting: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._lost = 0
        self._often = Damper(most=1)
        """One line for all events lost in a while: a listener that is behind loses one after the
        other."""
        self._damped = RateLimitedLog(_log)

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Call `fn(event)` for the events named, or for all events if none is named."""
        check_plain("fn", fn)
        for name in names:
            if not isinstance(name, str) or name not in self._names:
                known = ", ".join(sorted(self._names))
                requirement = f"be names of events of a {self._owner}"
                raise ArgumentError("names", name, requirement, f"these are {known}")
        listener = Listener(self, fn, frozenset(names) or self._names)
        with self._lock:
            self._listeners += (listener,)
        return listener

    def remove(self, listener: Listener) -> None:
        """Forget `listener`. Does nothing if it is unknown."""
        with self._lock:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

    def emit(
        self, name: str, value: AnyCost = 0, message: str = "", metadata: object = None
    ) -> None:
        """Queue the event for all listeners, and return immediately."""
        if not self._listeners:
            return
        if self._waiting.qsize() >= self.MOST_WAITING:
            self._lost += 1
            return
        self._waiting.put(Event(name, value, message, metadata))
        # Listeners do not start the thread: an owner that is never started would leave it behind.
        if self._thread is None or not self._thread.is_alive():  # after a fork it is not
            self._deliver_from_now_on()

    def close(self, timeout: float = 1.0) -> None:
        """Deliver the events that are on their way, for at most `timeout`, and end the thread."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        self._waiting.put(None)  # for a thread that is just being started, too
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _deliver_from_now_on(self) -> None:
        with self._lock:
            if self._closed or (self._thread is not None and self._thread.is_alive()):
                return
            thread = threading.Thread(
                target=self._deliver, name=f"{self._owner}-events", daemon=True
            )
            # without a thread now, the next event tries again
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _deliver(self) -> None:
        while (event := self._waiting.get()) is not None:
            self._hand(event)
            if self._lost and self._often.left_out(None) is not None:
                self._log_lost()
        if self._lost:
            self._log_lost()

    def _log_lost(self) -> None:
        lost, self._lost = self._lost, 0
        facts = {"happening": "events-lost", "owner": self._owner, "events": lost}
        _log.warning(
            "%s: slow listeners, %d events were not delivered", *(self._owner, lost), extra=facts
        )

    def _hand(self, event: Event) -> None:
        for listener in self._listeners:
            if event.name in listener.names:
                self._call(listener, event)

    def _call(self, listener: Listener, event: Event) -> None:
        try:
            notify(listener.fn, event)
        except BaseException as error:  # it must not end the thread that serves the others
            keep_last_raise(error)
            self._damped.log(
                logging.ERROR,
                "%s: a listener of %r raised",
                *(self._owner, event.name),
                exc_info=error,
                extra={
                    "happening": "listener-raised",
                    "owner": self._owner,
                    "event": event.name,
                    "error": type(error).__name__,
                },
            )
