"""InlineBatcher: the Batcher's rules, without its threads and without waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dispatcher._core.engine import Engine
from dispatcher._core.engine_thread import EngineThread
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.chunk import Chunk
from dispatcher._core.waiters import DrainWaiter
from dispatcher.batcher import Batcher
from dispatcher.errors import DispatcherError
from dispatcher.events import Event
from dispatcher.operation import Operation
from dispatcher.state import State
from dispatcher.testing._recorder import Recorder
from dispatcher.testing.runners import InlineRunners, RaisedBatch
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds
from limiters._support.validation import seconds as checked_seconds
from limiters.limiter import RateLimiter
from limiters.shared import SharedResource
from limiters.testing.clock import ManualClock

LONGEST_WAIT = 86_400.0
"""Seconds on the manual clock after which a wait without a timeout gives up."""

MOST_TURNS = 100_000
"""Maximum number of steps at one moment."""


GRAIN = 1e-9
"""Tolerance in seconds: events due this little later than a turn ends are due. Then 0.09 and 0.01
are 0.1."""


class StuckError(DispatcherError):
    """A call waited for something that does not come, however far the clock advances."""


class _InlineBuffer(Buffer):
    """Runs the Batcher in calls that wait for room: no thread would."""

    pass_until: Callable[[Callable[[], bool], float | None], bool]

    def wait(self, item: Operation | Chunk, timeout: float | None, inside: object) -> None:
        self.pass_until(lambda: self.closed or not self.beyond(item), timeout)
        self._judge(item, self.withdraw(item))

    async def wait_async(
        self, item: Operation | Chunk, timeout: float | None, inside: object
    ) -> None:
        self.wait(item, timeout, inside)


class _InlineEngine(EngineThread):
    """Runs the engine in the calls that would wait for it, without a thread."""

    def __init__(self, engine: Engine, **parts: Any) -> None:
        super().__init__(engine, **parts)
        assert isinstance(engine.buffer, _InlineBuffer)
        assert isinstance(engine.runners, InlineRunners)
        assert isinstance(self.emitter, Recorder)
        assert isinstance(self._clock, ManualClock)
        engine.buffer.pass_until = self.pass_until
        self.runners = engine.runners
        self.runners.clock = self._clock.now
        self.recorder = self.emitter
        self._manual = self._clock
        self._wake = 0.0

    def start(self, owner: object) -> None:
        super().start(owner)
        self._settle()

    def _begin(self, owner: object) -> None:
        """Do nothing: it has no thread."""

    def ask(self, question: Callable[..., None], timeout: float | None, *arguments: object) -> bool:
        if self._ended.is_set():
            return True
        told: list[bool] = []
        waiter = DrainWaiter(lambda: told.append(True))
        self.engine.post(question, waiter, *arguments)
        try:
            return self.pass_until(lambda: bool(told), timeout)
        finally:
            waiter.gone = True

    def _await_end(self) -> None:
        if self._ended.is_set():
            return
        self.pass_until(lambda: self.engine.finished, None)
        self.engine.give_back()
        self._finish()

    def pass_until(self, done: Callable[[], bool], timeout: float | None) -> bool:
        """Advance until `done()` is true. Return False after `timeout`."""
        if self._state is State.NEW:
            return done()
        end = self._manual.now() + (LONGEST_WAIT if timeout is None else timeout)
        self._settle()
        while not (done() or self.engine.finished):
            now = self._manual.now()
            if now >= end and timeout is None:
                raise StuckError(
                    f"what was waited for has not come in {LONGEST_WAIT:g} seconds of the manual "
                    "clock: give a timeout, or look at `batches` and `events` for what goes on"
                )
            if now >= end and self._wake > end + GRAIN:
                return False
            self._manual.advance((self._wake if self._wake <= end + GRAIN else end) - now)
            self._settle()
        return True

    def _settle(self) -> None:
        """Run until nothing is left to do at this moment."""
        for _ in range(MOST_TURNS):
            if self.engine.finished:
                return
            self._wake = self.engine.turn(self._manual.now())
            told = self.recorder.deliver()
            if not (self.runners.run() or told) and self._wake > self._manual.now():
                return
        raise StuckError(
            f"there is always more to do at one moment ({self._manual.now():g}): does a callback "
            "enqueue again what it was given, with nothing in between?"
        )


class InlineBatcher(Batcher):
    """A Batcher for tests: the same rules, but the clock is set by hand, and callbacks run one
    after the other on the calling thread. It can be used in every place where a Batcher is
    expected.

    Nothing happens except in `turn()` and in calls that would wait: `start`, `drain`, `stop`,
    `pause`, `Watcher.wait`, and `enqueue` on a full buffer. These advance the clock as far as
    necessary; a call without a timeout raises StuckError if what it waits for does not come within
    a day.

    * `clock`: shared with the `rate_limiter`, which must be a ProvisionedResource with the same
      clock.
    * all others: the options of Batcher.

    `batches` are those raised so far, and `events` those emitted so far; listeners are called as
    well. A callback that takes time calls `turn(seconds)` itself. `async def` callbacks run on one
    event loop, one at a time; their sleeps take real time. An error of a callback is in the `error`
    of its batch, and is treated as by a Batcher.

    Not thread-safe: use it from one thread.

    >>> from dispatcher import Operation, ProvisionedResource, Watcher
    >>> from dispatcher.testing import InlineBatcher, ManualClock
    >>> clock = ManualClock()
    >>> limiter = ProvisionedResource(100, clock=clock)
    >>> watcher = Watcher(lambda batch: None, max_batch_size=2)
    >>> with InlineBatcher(clock=clock, rate_limiter=limiter) as batcher:
    ...     for name in "abc":
    ...         batcher.enqueue(Operation(watcher, 1, name, batchable=True))
    ...     [batch.payloads for batch in batcher.turn()]     # a full batch goes at once
    ...     [batch.payloads for batch in batcher.turn(0.1)]  # "c" waits for others
    [['a', 'b']]
    [['c']]
    """

    _buffer_type = _InlineBuffer
    _emitter_type = Recorder
    _runners_type = InlineRunners
    _thread_type = _InlineEngine

    def __init__(
        self,
        *,
        clock: ManualClock | None = None,
        rate_limiter: RateLimiter | None = None,
        **options: Any,
    ) -> None:
        self.clock = clock or ManualClock()
        super().__init__(rate_limiter=rate_limiter, clock=self.clock, **options)
        _check_turns_with(self.clock, rate_limiter)
        assert isinstance(self._engine_thread, _InlineEngine)
        self._inline = self._engine_thread

    @property
    def batches(self) -> list[RaisedBatch]:
        """All batches whose callbacks were called, oldest first."""
        return self._inline.runners.batches

    @property
    def events(self) -> list[Event]:
        """All events, oldest first."""
        return self._inline.recorder.events

    def turn(self, seconds: Seconds = 0.0) -> list[RaisedBatch]:
        """Advance the clock by `seconds`, and do everything that falls due by then. Return the
        batches raised.

        Without an argument, do what is due now. A callback may call it, too.
        """
        length = checked_seconds("seconds", seconds, zero=True)
        self._inline.check_running("turn()")
        before = len(self.batches)
        self._inline.pass_until(lambda: False, length)
        return self.batches[before:]


def _check_turns_with(clock: ManualClock, limiter: RateLimiter | None) -> None:
    if isinstance(limiter, SharedResource):
        raise ArgumentError(
            "rate_limiter",
            UNSHOWN,
            "be a ProvisionedResource on the same clock: a SharedResource has a thread of its "
            "own (a limit that is shared is tried with limiters.testing)",
        )
    if limiter is not None and limiter.clock is not clock:
        raise ArgumentError(
            "rate_limiter",
            UNSHOWN,
            "go by the same clock: ProvisionedResource(..., clock=clock), "
            "InlineBatcher(clock=clock, ...)",
        )
