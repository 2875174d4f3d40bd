"""The Batcher: operations go in, batches come out, as fast as the limit allows."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Self

from dispatcher import events
from dispatcher._core.admission import Admission
from dispatcher._core.batches.executors import Runners
from dispatcher._core.engine import Engine
from dispatcher._core.limiter_link import LimiterLink
from dispatcher._core.observers import Observer
from dispatcher._core.open_work import BatcherTotals
from dispatcher._core.pause import Pause
from dispatcher._core.queues.batch import CURRENT
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.settings import Settings
from dispatcher._core.waiters import DrainWaiter, Gate
from dispatcher._retry import Wait
from dispatcher.errors import ImproperOrderError
from dispatcher.events import Event, Listener
from dispatcher.operation import Operation
from dispatcher.state import State
from dispatcher.watcher import Watcher
from limiters._support.clock import Clock, clock_of
from limiters._support.validation import (
    Seconds,
    count,
    flag,
    optional_count,
    optional_seconds,
    seconds,
)
from limiters._support.wake_signal import WakeSignal
from limiters.events import Emitter
from limiters.limiter import RateLimiter

CUT_SHORT = 5.0
"""Seconds that a stop() that was interrupted waits, at most, for what was not sent."""

_log = logging.getLogger("dispatcher.batcher")
_made: weakref.WeakSet[Batcher] = weakref.WeakSet()


class Batcher(Admission):
    """Raises operations to their watchers in batches, never faster than `rate_limiter` allows.

    Make one for each datastore whose capacity is to be respected, and keep it; any number of
    threads and watchers share it. It starts a `rate_limiter` that was not started; the last
    Batcher that uses such a limiter stops it. A limiter that is stopped earlier stops its
    Batchers, with an `error` event.

    * `max_buffer_size`: how many operations may wait. When they do, `enqueue` blocks, or
      raises BufferFullError with `error_on_full_buffer`.
    * `flush_interval`: how long an operation waits at most for others to share its batch.
      A full batch and a full buffer do not wait.
    * `capacity_interval`: how often the limiter is told what is needed.
    * `audit_interval`: how often the books are checked.
    * `max_operation_time`: how long a callback may take before its batch is abandoned.
    * `pause_time`: how long `pause()` lasts: seconds, or a tenacity wait strategy.
    * `max_concurrent_batches`: how many batches may be in flight. None: any number of
      coroutines, and 2,000 plain functions.
    * `emit_batch`, `emit_flush`, `emit_request`: raise these frequent events as well.
    * `clock`: what tells the time; a ManualClock of `limiters.testing`, for tests.

    Thread-safe. Leaving its `with` block drains it; leaving it by an exception, cancellation
    included, stops it at once, and `returned` holds what was not sent.

    >>> from dispatcher import Batcher, Operation, ProvisionedResource, Watcher
    >>> sent = []
    >>> watcher = Watcher(lambda batch: sent.extend(one.payload for one in batch))
    >>> with Batcher(rate_limiter=ProvisionedResource(1_000)) as batcher:
    ...     for number in range(5):
    ...         batcher.enqueue(Operation(watcher, 10, number, batchable=True))
    >>> sent
    [0, 1, 2, 3, 4]
    """

    # What `dispatcher.testing` puts others in the place of.
    _buffer_type: type[Buffer] = Buffer
    _emitter_type: type[Emitter] = Emitter
    _runners_type: type[Runners] = Runners

    def __init__(
        self,
        *,
        rate_limiter: RateLimiter | None = None,
        max_buffer_size: int = 10_000,
        flush_interval: Seconds = 0.1,
        capacity_interval: Seconds = 0.1,
        audit_interval: Seconds = 10.0,
        max_operation_time: Seconds = 60.0,
        pause_time: Seconds | Wait = 0.5,
        error_on_full_buffer: bool = False,
        max_concurrent_batches: int | None = None,
        emit_batch: bool = False,
        emit_flush: bool = False,
        emit_request: bool = False,
        clock: Clock | None = None,
    ) -> None:
        limiting = LimiterLink(rate_limiter)
        settings = Settings(
            flush_interval=seconds("flush_interval", flush_interval),
            capacity_interval=seconds("capacity_interval", capacity_interval),
            audit_interval=seconds("audit_interval", audit_interval),
            max_operation_time=seconds("max_operation_time", max_operation_time),
            max_concurrent_batches=optional_count("max_concurrent_batches", max_concurrent_batches),
            emit_batch=flag("emit_batch", emit_batch),
            emit_flush=flag("emit_flush", emit_flush),
            emit_request=flag("emit_request", emit_request),
        )
        fail_on_full = flag("error_on_full_buffer", error_on_full_buffer)
        bell = WakeSignal()
        buffer = self._buffer_type(count("max_buffer_size", max_buffer_size), bell.ring)
        super().__init__(buffer, error_on_full_buffer=fail_on_full)
        self._limiting = limiting
        self._clock = clock_of(clock)
        self._bell = bell
        self._emitter = self._emitter_type(type(self).__name__, events.BATCHER_EVENTS)
        self._pause = Pause(pause_time)
        self._engine = Engine(
            settings,
            buffer,
            bell,
            pause=self._pause,
            limiter=rate_limiter,
            runners=self._runners_type("dispatcher"),
            emit=self._emitter.emit,
            clock=self._clock.now,
        )
        self._thread: threading.Thread | None = None
        self._launch = Gate()
        """At which that thread waits for start()."""
        self._state = State.NEW
        self._state_lock = threading.RLock()
        self._ended = threading.Event()  # nothing waits for it: see Gate
        self._gates: list[Gate] = []
        """Of those who wait for the end."""
        self.returned: list[Operation] = []
        """What stop() gave back."""
        _made.add(self)

    # Life.

    def start(self) -> None:
        """Begins to raise batches. What was enqueued before is raised now.

        If it raises, since the limiter does or the system gives no thread, nothing has begun, and
        it may be called again. If an exception such as KeyboardInterrupt interrupts it, nothing
        has begun either, but a limiter that it had started is stopped.
        """
        self._check_fork()
        with self._state_lock:
            if self._state is not State.NEW:
                raise ImproperOrderError(
                    f"this Batcher is {self._state}; start() is called once, on a new one"
                )
            try:
                self._begin()
                self._limiting.start(self.live_totals.published)
                self._engine.limiter_runs()
                if self._state is State.NEW:  # one step with the next line
                    self._state = State.RUNNING
            finally:
                # It may be neither: a signal handler that interrupts this may call stop().
                if self._state is not State.RUNNING:
                    self._thread = None
                    self._limiting.end()
                self._launch.open()

    def stop(self, drain: bool = True, timeout: Seconds | None = None) -> list[Operation]:
        """Stops, and gives back the operations that were accepted and never raised, oldest
        first, those that wait before a retry included.

        From now on nothing is accepted, and every blocked `enqueue` raises
        BatcherStoppedError. With `drain` it first sends what is there, for at most `timeout`;
        without a timeout, until nothing could be sent for max_operation_time. Batches in flight
        finish (or are abandoned after their max_operation_time). A limiter that
        a Batcher started is stopped with the last one that uses it.

        Idempotent: called again it gives the same list; with `drain=False` it cuts short a stop
        that drains. If an exception such as KeyboardInterrupt interrupts it, nothing more is sent,
        and `returned` holds what was not; a note on the exception says how much. A Batcher that
        was never started gives back what it has.
        """
        drain = flag("drain", drain)
        limit = optional_seconds("timeout", timeout, zero=True)
        self._check_callable("stop()")
        if self._state is State.NEW and self._stop_unstarted():
            return self.returned
        if self._state is State.RUNNING:  # one step with the next line
            self._state = State.STOPPING
        self._buffer.close()
        self._launch.open()  # a signal handler may have interrupted start() just before that
        self._engine.post(self._engine.end_pause)
        try:
            if drain:
                ask = self._engine.await_drained if limit is not None else self._engine.send_out
                self._await(ask, limit)
            self._engine.post(self._engine.stop)
            self._await_end()
        except BaseException as error:
            self._cut_short(error)
            raise
        return self.returned

    def _stop_unstarted(self) -> bool:
        """Ends a Batcher that was never started; False if it was, in this moment."""
        with self._state_lock:
            if self._state is not State.NEW:
                return False
            self._state = State.STOPPING
        self._buffer.close()
        self._engine.give_back()
        self._finish()
        return True

    def _cut_short(self, error: BaseException) -> None:
        """stop() was interrupted: nothing more is sent, and what is left can be had."""
        self._await(self._engine.stop_and_tell, CUT_SHORT)
        self.returned = self._engine.endings.given_back or []
        if self.returned:
            text = (
                f"stop() was interrupted: {len(self.returned)} operations were not sent; they are "
                "in Batcher.returned"
            )
            error.add_note(text)
            facts = {"happening": "not-sent", "operations": len(self.returned)}
            _log.warning("%s", text, extra=facts)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(drain=error is None)
        if self.returned:
            _log.warning(
                "%d operations were not sent; they are in Batcher.returned",
                len(self.returned),
                extra={"happening": "not-sent", "operations": len(self.returned)},
            )

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self.__exit__, kind, error, trace))

    # Steering.

    def pause(self, seconds: Seconds | None = None) -> None:
        """Raises no batch, asks for no capacity and runs no audit for a while: when the
        datastore is under too much pressure. When it returns, the pause has begun. Pausing
        again does not prolong it, unless `seconds` is given and ends later."""
        length = optional_seconds("seconds", seconds, zero=True)
        self._check_running("pause()")
        if self._on_own_thread():  # an observer: it begins after this turn
            self._engine.post(self._engine.begin_pause, length)
        else:
            self._await(self._engine.pause_and_tell, None, length)

    def resume(self) -> None:
        """Ends a pause before its time."""
        self._check_running("resume()")
        self._engine.post(self._engine.end_pause)

    def flush(self) -> None:
        """Raises what waits now, in batches full or not, as far as the limit allows. It does
        not wait for that."""
        self._check_running("flush()")
        self._engine.post(self._engine.flush)

    def drain(self, timeout: Seconds | None = None) -> bool:
        """Waits until everything accepted has ended; False if that takes too long. While it
        waits, no operation waits for others to share its batch."""
        limit = optional_seconds("timeout", timeout, zero=True)
        self._check_callable("drain()")
        self._check_running("drain()")
        return self._await(self._engine.await_drained, limit)

    def wait_for(self, watcher: Watcher, timeout: float | None) -> bool:
        """What `Watcher.wait` does for one Batcher."""
        self._check_callable("Watcher.wait()")
        if self._state is State.NEW:
            self._check_running("Watcher.wait()")
        return self._await(self._engine.await_idle, timeout, watcher)

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Calls `fn(event)` for the events named, or for all of them, on a thread of its own:
        a listener that is slow or raises harms nothing."""
        return self._emitter.add_listener(fn, *names)

    def observe(self, observer: Observer) -> None:
        """Tells `observer` of each batch, on the Batcher's own thread: for metrics, which must
        miss nothing and cost nothing. For all else there are listeners."""
        self._engine.observed.add(observer)

    # What it knows.

    @property
    def rate_limiter(self) -> RateLimiter | None:
        """Who allows what, as it was given."""
        return self._limiting.limiter

    @property
    def max_buffer_size(self) -> int:
        """How many operations may wait, as it was given."""
        return self._buffer.size

    @property
    def inflight(self) -> int:
        """How many batches were raised and have not ended."""
        return self._engine.books.read()[1]

    @property
    def operations_in_buffer(self) -> int:
        """How many operations are accepted and not in flight."""
        return self._engine.books.read()[2]

    @property
    def needs_capacity(self) -> float:
        """The target: the cost of all operations accepted and not ended."""
        return self._engine.books.read()[0]

    @property
    def state(self) -> State:
        """Where it is in its life."""
        if self._state is State.RUNNING and self._pause.until is not None:
            return State.PAUSED
        return self._state

    @property
    def totals(self) -> BatcherTotals:
        """What became of operations and batches since the start; a copy."""
        return replace(self._engine.books.totals)

    @property
    def live_totals(self) -> BatcherTotals:
        """The same, not a copy: it goes on counting. To be read only; it outlives the Batcher."""
        return self._engine.books.totals

    def __repr__(self) -> str:
        return f"Batcher({self.state}, rate_limiter={self.rate_limiter!r})"

    # Inside.

    def _begin(self) -> None:
        self._limiting.listen(self._limiter_changed)
        self._launch = launch = Gate()
        self._thread = threading.Thread(
            target=self._run, args=(launch,), name="dispatcher-engine", daemon=True
        )
        self._thread.start()

    def _await_end(self) -> None:
        gate = Gate()
        self._gates.append(gate)
        gate.wait(self._ended.is_set, None)

    def _run(self, launch: Gate) -> None:
        launch.wait(self._ended.is_set, None)  # until start() has done all that can fail
        if self._thread is not threading.current_thread():
            return
        engine, clock, bell = self._engine, self._clock, self._bell
        try:
            while not engine.finished:
                wake = engine.turn(clock.now())
                bell.wait(max(0.0, min(wake - clock.now(), threading.TIMEOUT_MAX)))
        except BaseException as error:
            # Nothing in there should raise, but a limiter or a clock of the user's may. Half
            # alive is worse than stopped: whoever waits is told.
            facts = {"happening": "batcher-broke"}
            message = "the Batcher has failed and is stopped"
            _log.critical(message, exc_info=True, extra=facts)
            self._emitter.emit(events.ERROR, 0, f"{message}: {error!r}", error)
            self._buffer.close()
        with contextlib.suppress(Exception):
            engine.give_back()
        self._finish()

    def _finish(self) -> None:
        self.returned = self._engine.endings.given_back or []
        self._state = State.STOPPED
        self._limiting.end()
        self._emitter.emit(events.SHUTDOWN)
        self._emitter.close()
        self._ended.set()
        for gate in self._gates:
            gate.open()
        self._engine.close()

    def _await(self, ask: Callable[..., None], timeout: float | None, *arguments: object) -> bool:
        """Posts `ask` with a waiter and waits until it is told. True once stopped."""
        if self._ended.is_set():
            return True
        gate = Gate()
        waiter = DrainWaiter(gate.open)
        self._engine.post(ask, waiter, *arguments)
        try:
            return gate.wait(self._ended.is_set, timeout)
        finally:
            waiter.gone = True

    def _on_own_thread(self) -> bool:
        return self._thread is threading.current_thread()

    def _limiter_changed(self, event: Event) -> None:
        self._engine.post(self._engine.look)

    def _check_running(self, call: str) -> None:
        self._check_fork()
        if self._state is State.NEW:
            raise ImproperOrderError(f"{call} needs a Batcher that is started; call start() first")
        if self._state is State.STOPPED:
            raise ImproperOrderError(f"{call} came after stop(); make a new Batcher")

    def _check_callable(self, call: str) -> None:
        self._check_fork()
        if self._on_own_thread():
            raise ImproperOrderError(
                f"{call} was called on this Batcher's own thread, by an observer, and would wait "
                "for itself; call it from another thread"
            )
        inside = CURRENT.get()
        if inside is not None and self._engine.endings.runs(inside):
            raise ImproperOrderError(
                f"{call} was called by a callback of this Batcher and would wait for itself; "
                "call it from another thread"
            )

    def _leave_behind(self) -> None:
        """We are in a forked child: the threads are not, and locks may be held for ever."""
        self._forked = True
        self._buffer.end()


def _after_fork_in_child() -> None:
    for batcher in list(_made):
        batcher._leave_behind()


def _warn_of_what_was_left() -> None:
    for batcher in list(_made):
        alive = batcher.state is not State.STOPPED and not batcher._forked
        if alive and (left := batcher.operations_in_buffer):
            new = batcher.state is State.NEW
            _log.warning(
                "the process ends and %d operations were not sent: call %s on the Batcher, "
                "or use it in a with block",
                *(left, "start() and stop()" if new else "stop()"),
                extra={"happening": "not-sent", "operations": left},
            )


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_warn_of_what_was_left)
