"""The Batcher: operations go in, batches come out, as fast as the limit allows."""

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

    Make one for each datastore whose capacity is to be respected, and keep it; any number of
    threads and watchers share it. It starts a `rate_limiter` that was not started; the last
    Batcher that uses such a limiter stops it. A limiter that is stopped earlier stops its
    Batchers, with an `error` event.

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
        """Accepts `operation`, to be raised to its watcher when its turn comes.

        While the buffer is full it waits for a place, for at most `timeout`; with
        `error_on_full_buffer` it raises BufferFullError at once. Thread-safe.

        Raises NoOperationError, NoWatcherError, TooExpensiveError, TooManyAttemptsError,
        AlreadyEnqueuedError, BufferFullError or BatcherStoppedError; what is refused leaves
        no trace. Within its own callback an operation may be enqueued again: that takes
        effect when its batch ends, and never blocks. If another exception interrupts it, such as
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
        # Nothing is called from the last test above to the append, so for CPython they are one
        # step: of two threads that enqueue one operation at the same time, one is refused, and a
        # Batcher that is stopped accepts nothing.
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
        """`enqueue` for coroutines: while the buffer is full, the event loop goes on."""
        await self._admission.enqueue_async(operation, timeout)

    def enqueue_many(self, operations: Iterable[Operation], timeout: Seconds | None = None) -> None:
        """Accepts all of `operations`, in their order; the fastest way in.

        All are checked before any is accepted. With `error_on_full_buffer` all or none are
        accepted; otherwise it waits for places, for at most `timeout` in all, and if that is
        interrupted, the error says how many were accepted: a BufferFullError or
        BatcherStoppedError as its `accepted`, any other error in a note. Thread-safe.
        """
        self._admission.enqueue_many(operations, timeout)

    # Life.

    def start(self) -> None:
        """Begins to raise batches. What was enqueued before is raised now.

        If it raises, since the limiter does or the system gives no thread, nothing has begun, and
        it may be called again. If an exception such as KeyboardInterrupt interrupts it, nothing
        has begun either, but a limiter that it had started is stopped.
        """
        self._engine_thread.start(self)

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

    # Steering.

    def pause(self, seconds: Seconds | None = None) -> None:
        """Raises no batch, asks for no capacity and runs no audit for a while: when the
        datastore is under too much pressure. When it returns, the pause has begun. Pausing
        again does not prolong it, unless `seconds` is given and ends later."""
        length = optional_seconds("seconds", seconds, zero=True)
        self._engine_thread.check_running("pause()")
        if self._engine_thread.on_own_thread:  # an observer: it begins after this turn
            self._engine.post(self._engine.pausing.begin, length)
        else:
            self._engine_thread.ask(self._engine.pause_and_wake, None, length)

    def resume(self) -> None:
        """Ends a pause before its time."""
        self._engine_thread.check_running("resume()")
        self._engine.post(self._engine.pausing.end)

    def flush(self) -> None:
        """Raises what waits now, in batches full or not, as far as the limit allows. It does
        not wait for that."""
        self._engine_thread.check_running("flush()")
        self._engine.post(self._engine.flush)

    def drain(self, timeout: Seconds | None = None) -> bool:
        """Waits until everything accepted has ended; False if that takes too long. While it
        waits, no operation waits for others to share its batch."""
        limit = optional_seconds("timeout", timeout, zero=True)
        self._engine_thread.check_callable("drain()")
        self._engine_thread.check_running("drain()")
        return self._engine_thread.ask(self._engine.await_drained, limit)

    def wait_for(self, watcher: Watcher, timeout: float | None) -> bool:
        """What `Watcher.wait` does for one Batcher."""
        return self._engine_thread.wait_for(watcher, timeout)

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Calls `fn(event)` for the events named, or for all of them, on a thread of its own:
        a listener that is slow or raises harms nothing."""
        return self._engine_thread.emitter.add_listener(fn, *names)

    def observe(self, observer: Observer) -> None:
        """Tells `observer` of each batch, on the Batcher's own thread: for metrics, which must
        miss nothing and cost nothing. For all else there are listeners."""
        self._engine.observed.add(observer)

    # What it knows.

    @property
    def rate_limiter(self) -> RateLimiter | None:
        """Who allows what, as it was given."""
        return self._engine.limiter

    @property
    def max_buffer_size(self) -> int:
        """How many operations may wait, as it was given."""
        return self._buffer.size

    @property
    def inflight(self) -> int:
        """How many batches were raised and have not ended."""
        return self._engine.open_work.read()[1]

    @property
    def operations_in_buffer(self) -> int:
        """How many operations are accepted and not in flight."""
        return self._engine.open_work.read()[2]

    @property
    def needs_capacity(self) -> AnyCost:
        """The target: the cost of all operations accepted and not ended, without what batches cost
        besides. Costs by dimension, if the limiter has several."""
        return self._engine.open_work.read()[0]

    @property
    def state(self) -> State:
        """Where it is in its life."""
        return self._engine_thread.state

    @property
    def returned(self) -> list[Operation]:
        """What stop() gave back."""
        return self._engine_thread.returned

    @property
    def totals(self) -> BatcherTotals:
        """What became of operations and batches since the start; a copy."""
        return replace(self._engine.open_work.totals)

    @property
    def live_totals(self) -> BatcherTotals:
        """The same, not a copy: it goes on counting. To be read only; it outlives the Batcher."""
        return self._engine.open_work.totals

    def __repr__(self) -> str:
        return f"Batcher({self.state}, rate_limiter={self.rate_limiter!r})"
