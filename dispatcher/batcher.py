"""The Batcher: it accepts operations and raises them in batches, as fast as the limit allows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import Self

from dispatcher import events
from dispatcher._core.admission import Admission
from dispatcher._core.batches.executors import Runners
from dispatcher._core.engine import Engine
from dispatcher._core.engine_thread import EngineThread
from dispatcher._core.environment import Environment
from dispatcher._core.limiter_link import LimiterLink
from dispatcher._core.mailbox import Mailbox
from dispatcher._core.observers import Observed, Observer
from dispatcher._core.open_work import BatcherTotals
from dispatcher._core.options import BatcherOptions
from dispatcher._core.queues.batch import CURRENT
from dispatcher._core.queues.buffer import Buffer
from dispatcher.errors import EnqueueError
from dispatcher.events import Event, Listener
from dispatcher.operation import Operation
from dispatcher.state import State
from dispatcher.watcher import Watcher
from limiters._costs import AnyCost
from limiters._support.clock import clock_of
from limiters._support.signatures import lists, takes
from limiters._support.validation import Seconds, flag, optional_seconds, seconds
from limiters._support.wake_signal import WakeSignal
from limiters.events import Emitter
from limiters.limiter import RateLimiter

_log = logging.getLogger("dispatcher.batcher")


@lists(BatcherOptions)
class Batcher:
    """Raises operations to their watchers in batches, never faster than `rate_limiter` allows.

    Make one for each limit, and keep it; any number of threads and watchers share it. It starts a
    `rate_limiter` that was not started; the last Batcher that uses such a limiter stops it. A
    limiter that is stopped earlier stops its Batchers, with an `error` event.

    Thread-safe. Leaving its `with` block drains it; leaving it by an exception, including
    cancellation, stops it without draining, and `returned` holds the operations that were not sent.

    >>> from dispatcher import Batcher, Operation, ProvisionedResource, Watcher
    >>> sent = []
    >>> watcher = Watcher(lambda batch: sent.extend(one.payload for one in batch))
    >>> with Batcher(rate_limiter=ProvisionedResource(1_000)) as batcher:
    ...     for number in range(5):
    ...         batcher.enqueue(Operation(watcher, 10, number, batchable=True))
    >>> sent
    [0, 1, 2, 3, 4]
    """

    # `dispatcher.testing` replaces these.
    _buffer_type: type[Buffer] = Buffer
    _emitter_type: type[Emitter] = Emitter
    _runners_type: type[Runners] = Runners
    _thread_type: type[EngineThread] = EngineThread

    @takes(BatcherOptions)
    def __init__(self, options: BatcherOptions) -> None:
        wake_signal = WakeSignal()
        clock = clock_of(options.clock)
        emitter = self._emitter_type(type(self).__name__, events.BATCHER_EVENTS)
        environment = Environment(
            options=options,
            mailbox=Mailbox(wake_signal.ring),
            runners=self._runners_type("dispatcher"),
            emit=emitter.emit,
            clock=clock.now,
            observed=Observed(),
        )
        self._buffer = self._buffer_type(options.max_buffer_size, wake_signal.ring)
        self._engine = Engine(self._buffer, environment)
        self._engine_thread = self._thread_type(
            self._engine,
            limiting=LimiterLink(options.rate_limiter),
            wake_signal=wake_signal,
            emitter=emitter,
            clock=clock,
        )
        self._admission = Admission(
            self._buffer,
            self._engine_thread,
            self._engine.costs,
            error_on_full_buffer=options.error_on_full_buffer,
        )

    # Ways in.

    def enqueue(self, operation: Operation, timeout: Seconds | None = None) -> None:
        """Accept `operation`, which is raised to its watcher when its turn comes.

        While the buffer is full, wait for room for at most `timeout`; with `error_on_full_buffer`
        raise BufferFullError without waiting. Thread-safe.

        Raises NoOperationError, NoWatcherError, TooExpensiveError, TooManyAttemptsError,
        AlreadyEnqueuedError, BufferFullError or BatcherStoppedError; a refused operation is not
        changed. Within its own callback an operation may be enqueued again: that takes effect when
        its batch ends, and never blocks. If another exception interrupts it, such as
        KeyboardInterrupt, the operation is either accepted or may be enqueued again.
        """
        if timeout is not None:
            timeout = seconds("timeout", timeout, zero=True)
        buffer = self._buffer
        try:
            while operation._where is not None:
                if not self._admission.may_enter(operation):
                    self._admission.requeue(operation)
                    return
            known = operation._watcher._home is self._engine_thread  # type: ignore[union-attr]
            oversized = operation._cost > buffer.ceiling
        except AttributeError:
            raise self._admission.explain(operation) from None
        if oversized or not known:
            self._admission.enqueue(operation, timeout)
            return
        # No function is called between the last test above and the append, so for CPython they are
        # one step: of two threads that enqueue one operation at the same time, one is refused, and
        # a Batcher that is stopped accepts nothing.
        try:
            operation._where = buffer
            inbox = buffer.inbox
            inbox.append(operation)
            if len(inbox) >= buffer.ring_at or not operation._batchable:
                patience = 0.0 if self._admission.error_on_full_buffer else timeout
                buffer.settle(operation, patience, CURRENT.get(), full=not operation._batchable)
        except EnqueueError:
            raise
        except BaseException:
            buffer.interrupted(operation)
            raise

    async def enqueue_async(self, operation: Operation, timeout: Seconds | None = None) -> None:
        """Accept `operation` as `enqueue` does. The event loop is not blocked while the buffer is
        full."""
        await self._admission.enqueue_async(operation, timeout)

    def enqueue_many(self, operations: Iterable[Operation], timeout: Seconds | None = None) -> None:
        """Accept all of `operations`, in their order. This is the fastest way to enqueue.

        All are checked before any is accepted. With `error_on_full_buffer` all or none are
        accepted; otherwise it waits for room, for at most `timeout` in all, and if that is
        interrupted, the error says how many were accepted: a BufferFullError or BatcherStoppedError
        as its `accepted`, any other error in a note. Thread-safe.
        """
        self._admission.enqueue_many(operations, timeout)

    # Starting and stopping.

    def start(self) -> None:
        """Begin to raise batches. Operations that were enqueued before are raised now.

        If it raises, because the limiter cannot start or the system starts no thread, nothing has
        begun, and it may be called again. If an exception such as KeyboardInterrupt interrupts it,
        nothing has begun either, but a limiter that it had started is stopped.
        """
        self._engine_thread.start(self)

    def stop(self, drain: bool = True, timeout: Seconds | None = None) -> list[Operation]:
        """Stop, and return the operations that were accepted and not sent, oldest first, including
        those that wait for a retry.

        From now on nothing is accepted, and every blocked `enqueue` raises BatcherStoppedError.
        With `drain` it first sends the operations that it has, for at most `timeout`; without a
        timeout, until nothing could be sent for max_operation_time. Batches in flight finish (or
        are abandoned after their max_operation_time). A limiter that a Batcher started is stopped
        with the last one that uses it.

        Idempotent: a second call returns the same list; with `drain=False` it ends the draining of
        a first one. If an exception such as KeyboardInterrupt interrupts it, nothing more is sent,
        and `returned` holds the operations that were not; a note on the exception says how many. A
        Batcher that was never started returns all operations that it has.
        """
        drain = flag("drain", drain)
        limit = optional_seconds("timeout", timeout, zero=True)
        self._engine_thread.stop(drain, limit)
        return self.returned

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

    # Control.

    def pause(self, seconds: Seconds | None = None) -> None:
        """Raise no batch, request no capacity and run no audit until `resume` is called or
        `seconds` have passed, for example while a datastore is overloaded. The pause has begun when
        this returns. Pausing again does not prolong it, unless `seconds` is given and ends
        later."""
        length = optional_seconds("seconds", seconds, zero=True)
        self._engine_thread.check_running("pause()")
        if self._engine_thread.on_own_thread:  # an observer calls: the pause begins after this step
            self._engine.post(self._engine.pausing.begin, length)
        else:
            self._engine_thread.ask(self._engine.pause_and_wake, None, length)

    def resume(self) -> None:
        """End a pause before its time."""
        self._engine_thread.check_running("resume()")
        self._engine.post(self._engine.pausing.end)

    def flush(self) -> None:
        """Raise all operations that wait now, also in batches that are not full, as far as the
        limit allows. Return without waiting for that."""
        self._engine_thread.check_running("flush()")
        self._engine.post(self._engine.flush)

    def drain(self, timeout: Seconds | None = None) -> bool:
        """Wait until all accepted operations have ended; False if that takes longer than `timeout`.
        Meanwhile no operation waits for others to share its batch."""
        limit = optional_seconds("timeout", timeout, zero=True)
        self._engine_thread.check_callable("drain()")
        self._engine_thread.check_running("drain()")
        return self._engine_thread.ask(self._engine.await_drained, limit)

    def wait_for(self, watcher: Watcher, timeout: float | None) -> bool:
        """Wait until no operation of `watcher` is left in this Batcher; False if that takes longer
        than `timeout`."""
        return self._engine_thread.wait_for(watcher, timeout)

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Call `fn(event)` for the events named, or for all events, on a thread of its own: a
        listener that is slow or raises has no effect on the Batcher."""
        return self._engine_thread.emitter.add_listener(fn, *names)

    def observe(self, observer: Observer) -> None:
        """Call `observer` for each batch, on the Batcher's own thread. It is meant for metrics: an
        observer misses no batch, and must be fast. For everything else use listeners."""
        self._engine.observed.add(observer)

    # Status.

    @property
    def rate_limiter(self) -> RateLimiter | None:
        """The rate_limiter that it was made with."""
        return self._engine.limiter

    @property
    def max_buffer_size(self) -> int:
        """How many operations may wait."""
        return self._buffer.size

    @property
    def inflight(self) -> int:
        """The number of batches that were raised and have not ended."""
        return self._engine.open_work.read()[1]

    @property
    def operations_in_buffer(self) -> int:
        """The number of operations that are accepted and not in flight."""
        return self._engine.open_work.read()[2]

    @property
    def needs_capacity(self) -> AnyCost:
        """The target: the cost of all operations that are accepted and have not ended, without the
        costs of batches. Costs by dimension, if the limiter has several."""
        return self._engine.open_work.read()[0]

    @property
    def state(self) -> State:
        """Its state: NEW, and so on until it is stopped."""
        return self._engine_thread.state

    @property
    def returned(self) -> list[Operation]:
        """The operations that `stop` returned."""
        return self._engine_thread.returned

    @property
    def totals(self) -> BatcherTotals:
        """A copy of the counts of operations and batches since the start."""
        return replace(self._engine.open_work.totals)

    @property
    def live_totals(self) -> BatcherTotals:
        """The counts themselves, which go on counting. Only read them. They outlive the Batcher."""
        return self._engine.open_work.totals

    def __repr__(self) -> str:
        return f"Batcher({self.state}, rate_limiter={self.rate_limiter!r})"
