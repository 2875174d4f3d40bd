"""The life of a Batcher: starts and stops its engine, runs its turns, and lets callers wait.

The Batcher, its Admission and its watchers call an EngineThread; it calls none of them.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import threading
import weakref
from collections.abc import Callable

from dispatcher import events
from dispatcher._core.engine import Engine
from dispatcher._core.limiter_link import LimiterLink
from dispatcher._core.queues.batch import CURRENT
from dispatcher._core.waiters import DrainWaiter, Gate
from dispatcher.errors import ForkedError, ImproperOrderError
from dispatcher.operation import Operation
from dispatcher.state import State
from dispatcher.watcher import Watcher
from limiters._support.clock import Clock
from limiters._support.forking import begin_in_child
from limiters._support.wake_signal import WakeSignal
from limiters.events import Emitter

CUT_SHORT = 5.0
"""Seconds that an interrupted stop() waits, at most, for operations that were not sent."""

_log = logging.getLogger("dispatcher.batcher")
_made: weakref.WeakSet[EngineThread] = weakref.WeakSet()


class EngineThread:
    """The engine of one Batcher, with its thread and its state. Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        *,
        limiting: LimiterLink,
        wake_signal: WakeSignal,
        emitter: Emitter,
        clock: Clock,
    ) -> None:
        self.engine = engine
        self.emitter = emitter
        self.limiting = limiting
        self._buffer = engine.buffer
        self._wake_signal = wake_signal
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._launch = Gate()
        """The gate at which that thread waits until start() is complete."""
        self._state = State.NEW
        self._state_lock = threading.RLock()
        self._ended = threading.Event()  # nothing waits for it: see Gate
        self._gates: list[Gate] = []
        """The gates of the callers that wait for the end."""
        self.forked = False
        """Whether this is a copy in a forked child, which has none of the threads."""
        self.returned: list[Operation] = []
        """The operations that stop() gave back."""
        _made.add(self)

    @property
    def state(self) -> State:
        """The present state; PAUSED is a part of RUNNING."""
        if self._state is State.RUNNING and self.engine.pausing.until is not None:
            return State.PAUSED
        return self._state

    def start(self, owner: object) -> None:
        """Start the thread and the limiter. The thread keeps `owner` alive for as long as it
        runs."""
        self.check_fork()
        with self._state_lock:
            if self._state is not State.NEW:
                raise ImproperOrderError(
                    f"this Batcher is {self._state}; start() is called once, on a new one"
                )
            try:
                self._begin(owner)
                engine = self.engine
                self.limiting.start(engine.open_work.totals.published, engine.costs.learned.read)
                self.engine.limiter_runs()
                if self._state is State.NEW:  # one step with the next line
                    self._state = State.RUNNING
            finally:
                # The state may be another one: a signal handler that interrupts this may call
                # stop().
                if self._state is not State.RUNNING:
                    self._thread = None
                    self.limiting.end()
                self._launch.open()

    def stop(self, drain: bool, limit: float | None) -> None:
        self.check_callable("stop()")
        if self._state is State.NEW and self._stop_unstarted():
            return
        if self._state is State.RUNNING:  # one step with the next line
            self._state = State.STOPPING
        self._buffer.close()
        self._launch.open()  # a signal handler may have interrupted start() just before that
        engine = self.engine
        engine.post(engine.pausing.end)
        try:
            if drain:
                self.ask(engine.await_drained if limit is not None else engine.send_out, limit)
            engine.post(engine.stop)
            self._await_end()
        except BaseException as error:
            self._cut_short(error)
            raise

    def ask(self, question: Callable[..., None], timeout: float | None, *arguments: object) -> bool:
        """Post `question` with a waiter, and wait until the engine wakes it or has ended. Return
        False if that takes longer than `timeout`."""
        if self._ended.is_set():
            return True
        gate = Gate()
        waiter = DrainWaiter(gate.open)
        self.engine.post(question, waiter, *arguments)
        try:
            return gate.wait(self._ended.is_set, timeout)
        finally:
            waiter.gone = True

    def wait_for(self, watcher: Watcher, timeout: float | None) -> bool:
        """Wait until nothing of `watcher` is left in this Batcher. Return False after `timeout`."""
        self.check_callable("Watcher.wait()")
        if self._state is State.NEW:
            self.check_running("Watcher.wait()")
        return self.ask(self.engine.await_idle, timeout, watcher)

    # Which calls are allowed at present.

    @property
    def on_own_thread(self) -> bool:
        """Whether this is the engine's own thread: an observer calls, in the middle of a turn."""
        return self._thread is threading.current_thread()

    def check_fork(self) -> None:
        """Raise ForkedError in a forked child."""
        if self.forked:
            raise ForkedError

    def check_running(self, call: str) -> None:
        """Raise ImproperOrderError unless the Batcher was started and has not ended."""
        self.check_fork()
        if self._state is State.NEW:
            raise ImproperOrderError(f"{call} needs a Batcher that is started; call start() first")
        if self._state is State.STOPPED:
            raise ImproperOrderError(f"{call} came after stop(); make a new Batcher")

    def check_callable(self, call: str) -> None:
        """Raise ImproperOrderError if `call` would wait for itself."""
        self.check_fork()
        if self.on_own_thread:
            raise ImproperOrderError(
                f"{call} was called on this Batcher's own thread, by an observer, and would wait "
                "for itself; call it from another thread"
            )
        inside = CURRENT.get()
        if inside is not None and self.engine.batch_end.runs(inside):
            raise ImproperOrderError(
                f"{call} was called by a callback of this Batcher and would wait for itself; "
                "call it from another thread"
            )

    # Internal methods. `dispatcher.testing` has another `_begin`, `ask` and `_await_end`.

    def _begin(self, owner: object) -> None:
        self.limiting.listen(self._limiter_changed)
        self._launch = launch = Gate()
        self._thread = threading.Thread(
            target=self._run, args=(launch, owner), name="dispatcher-engine", daemon=True
        )
        self._thread.start()

    def _limiter_changed(self) -> None:
        self.engine.post(self.engine.look)

    def _run(self, launch: Gate, owner: object) -> None:
        launch.wait(self._ended.is_set, None)  # until start() has done all that can fail
        if self._thread is not threading.current_thread():
            return
        engine, clock, wake_signal = self.engine, self._clock, self._wake_signal
        try:
            while not engine.finished:
                wake = engine.turn(clock.now())
                wake_signal.wait(max(0.0, min(wake - clock.now(), threading.TIMEOUT_MAX)))
        except BaseException as error:
            # Nothing in there should raise, but a user's limiter or clock may. If the engine
            # crashes, stop the Batcher and unblock every waiting caller.
            facts = {"happening": "batcher-broke"}
            message = "the Batcher has failed and is stopped"
            _log.critical(message, exc_info=True, extra=facts)
            self.emitter.emit(events.ERROR, 0, f"{message}: {error!r}", error)
            self._buffer.close()
        with contextlib.suppress(Exception):
            engine.give_back()
        self._finish()

    def _finish(self) -> None:
        self.returned = self.engine.batch_end.given_back or []
        self._state = State.STOPPED
        self.limiting.end()
        self.emitter.emit(events.SHUTDOWN)
        self.emitter.close()
        self._ended.set()
        for gate in self._gates:
            gate.open()
        self.engine.close()

    def _await_end(self) -> None:
        gate = Gate()
        self._gates.append(gate)
        gate.wait(self._ended.is_set, None)

    def _stop_unstarted(self) -> bool:
        """End a Batcher that was never started. Return False if it was started meanwhile."""
        with self._state_lock:
            if self._state is not State.NEW:
                return False
            self._state = State.STOPPING
        self._buffer.close()
        self.engine.give_back()
        self._finish()
        return True

    def _cut_short(self, error: BaseException) -> None:
        """Send nothing more after an interrupted stop(), and make the operations that are left
        available."""
        self.ask(self.engine.stop_and_wake, CUT_SHORT)
        self.returned = self.engine.batch_end.given_back or []
        if self.returned:
            text = (
                f"stop() was interrupted: {len(self.returned)} operations were not sent; they are "
                "in Batcher.returned"
            )
            error.add_note(text)
            facts = {"happening": "not-sent", "operations": len(self.returned)}
            _log.warning("%s", text, extra=facts)

    def leave_behind(self) -> None:
        """Mark this as a copy in a forked child: its threads do not exist, and its locks may stay
        locked."""
        self.forked = True
        self._buffer.leave_behind()


def _after_fork_in_child() -> None:
    for one in list(_made):
        one.leave_behind()


def _warn_of_what_was_left() -> None:
    for one in list(_made):
        alive = one.state is not State.STOPPED and not one.forked
        if alive and (left := one.engine.open_work.read()[2]):
            new = one.state is State.NEW
            _log.warning(
                "the process ends and %d operations were not sent: call %s on the Batcher, "
                "or use it in a with block",
                *(left, "start() and stop()" if new else "stop()"),
                extra={"happening": "not-sent", "operations": left},
            )


begin_in_child(_after_fork_in_child)
atexit.register(_warn_of_what_was_left)
