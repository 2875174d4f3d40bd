"""Accepts operations into a Batcher: one, many, or one from a coroutine.

Each way checks and prepares the operations, then publishes them in one step. `buffer` explains what
that means and why no lock is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

from dispatcher import _interpreter as interpreter
from dispatcher._core.cost_terms import CostTerms
from dispatcher._core.queues.batch import CURRENT, OperationBatch
from dispatcher._core.queues.buffer import NEVER, Buffer
from dispatcher._core.queues.chunk import Chunk
from dispatcher._core.queues.stages import BatchState
from dispatcher.errors import (
    AlreadyEnqueuedError,
    BatcherStoppedError,
    BufferFullError,
    EnqueueError,
    ForkedError,
    NoOperationError,
    NoWatcherError,
    TooManyAttemptsError,
)
from dispatcher.operation import Claim, Operation, attempt_of
from dispatcher.watcher import Waitable, Watcher
from limiters._costs import AnyCost
from limiters._support.validation import ArgumentError, Seconds, optional_seconds

interpreter.check()


class Home(Waitable, Protocol):
    """The part of a Batcher that Admission and its watchers use."""

    forked: bool
    """Whether this is a copy in a forked child."""

    def check_fork(self) -> None:
        """Raise ForkedError in a forked child."""
        ...


class Admission:
    """Accepts operations, except on the fast path. That is `Batcher.enqueue` itself, since one more
    call for each operation costs a tenth of the throughput."""

    def __init__(
        self, buffer: Buffer, home: Home, costs: CostTerms, *, error_on_full_buffer: bool
    ) -> None:
        self._buffer = buffer
        self._home = home
        self._costs = costs
        self.error_on_full_buffer = error_on_full_buffer

    def enqueue(self, operation: Operation, timeout: float | None) -> None:
        """Enqueue an operation that needs a closer look: its watcher is new here, its batches have
        a cost of their own, its cost is large or has dimensions, or it cannot be accepted."""
        buffer = self._buffer
        cost = self._prepare(operation)
        while operation._where is not None:
            if not self.may_enter(operation):
                self.requeue(operation)
                return
        if buffer.closed:
            raise BatcherStoppedError
        try:
            operation._cost = cost
            operation._where = buffer
            buffer.inbox.append(operation)
            patience = 0.0 if self.error_on_full_buffer else timeout
            buffer.settle(operation, patience, CURRENT.get(), full=not operation._batchable)
        except EnqueueError:
            raise
        except BaseException:
            buffer.interrupted(operation)
            raise

    async def enqueue_async(self, operation: Operation, timeout: Seconds | None) -> None:
        limit = optional_seconds("timeout", timeout, zero=True)
        patience = 0.0 if self.error_on_full_buffer else limit
        buffer = self._buffer
        cost = self._prepare(operation)
        while operation._where is not None:
            if not self.may_enter(operation):
                self.requeue(operation)
                return
        if buffer.closed:
            raise BatcherStoppedError
        try:
            operation._cost = cost
            operation._where = buffer
            buffer.inbox.append(operation)
            buffer.notice(operation, full=not operation._batchable)
            if buffer.beyond(operation):
                await buffer.wait_async(operation, patience, CURRENT.get())
        except EnqueueError:
            raise
        except BaseException:
            buffer.interrupted(operation)
            raise

    def enqueue_many(self, operations: Iterable[Operation], timeout: Seconds | None) -> None:
        limit = optional_seconds("timeout", timeout, zero=True)
        try:
            given = list(operations)
        except TypeError:
            raise ArgumentError(
                "operations",
                operations,
                "be an iterable of operations",
                "enqueue() takes a single one",
            ) from None
        buffer = self._buffer
        arrivals = Arrivals(Chunk(buffer))
        chunk = arrivals.chunk
        try:
            self._check_all(given, arrivals)
            if chunk.operations:
                self._enter(arrivals, limit)
        except BaseException as error:
            accepted = buffer.interrupted(chunk)
            if not isinstance(error, EnqueueError):
                error.add_note(f"enqueue_many had accepted {accepted} of {len(given)} operations")
            raise
        for operation in arrivals.own.values():
            self.requeue(operation)

    def _enter(self, arrivals: Arrivals, timeout: float | None) -> None:
        buffer, chunk = self._buffer, arrivals.chunk
        for watcher in arrivals.watchers.values():
            self._adopt(watcher)
        inside = CURRENT.get()
        strict = self.error_on_full_buffer
        if strict and len(chunk.operations) > buffer.size:
            raise BufferFullError(buffer.size)
        buffer.announce()
        for operation, cost in arrivals.normal:
            operation._cost = cost
        if buffer.closed:
            raise self._stopped()
        buffer.inbox.append(chunk)
        if strict:
            if buffer.beyond(chunk) and buffer.recall(chunk):
                raise BufferFullError(buffer.size)
            timeout = None  # the engine has taken some of it, and will take the rest
        buffer.settle(chunk, timeout, inside, full=arrivals.single)

    def _prepare(self, operation: Operation) -> AnyCost:
        """Check `operation` and register its watcher. Return its cost in the form of the
        limiter."""
        cost = self._check(operation)
        assert operation._watcher is not None
        self._adopt(operation._watcher)
        return cost

    def _check(self, operation: Operation) -> AnyCost:
        if not isinstance(operation, Operation) or not isinstance(operation._watcher, Watcher):
            raise self.explain(operation)
        if not hasattr(operation._watcher, "_terms"):  # its class does not call Watcher.__init__
            raise self.explain(operation)
        if self._buffer.closed:
            raise self._stopped()
        return self._costs.checked(operation)

    def _stopped(self) -> Exception:
        return ForkedError() if self._home.forked else BatcherStoppedError()

    def explain(self, given: object) -> EnqueueError:
        """Return the error for `given`, which is no operation or has no watcher."""
        if isinstance(given, Operation):
            return NoWatcherError(given._watcher)
        return NoOperationError(given)

    def may_enter(self, operation: Operation) -> bool:
        """Return whether an operation that was enqueued before may be accepted now. It may if it
        has ended. False: its own callback enqueues it, and it is accepted when its batch ends.
        Raise an error if it may not be enqueued at all."""
        self._home.check_fork()
        where = operation._where
        if where is None:
            return True
        if isinstance(where, Claim):
            if where.holds(operation):
                raise AlreadyEnqueuedError
            # The call that made the claim was interrupted before it published the operation.
            if operation._where is where:
                operation._where = None
            return True
        if not isinstance(where, OperationBatch):
            raise AlreadyEnqueuedError
        assert operation._watcher is not None
        over = where.over
        if not over and where.buffer is not self._buffer:
            raise AlreadyEnqueuedError(elsewhere=True)
        if not over and (
            id(operation) in where.requeued or where.ending or CURRENT.get() is not where
        ):
            raise AlreadyEnqueuedError
        policy = operation._watcher._terms.policy
        attempt = attempt_of(operation)
        if not policy.may_repeat(attempt):
            raise TooManyAttemptsError(attempt, policy.max_attempts or 0)
        if not over:
            return False
        if operation._where is where:  # otherwise another thread has just done this
            operation._where = None
            operation._attempts += 1
        return True

    def requeue(self, operation: Operation) -> None:
        """Note that the callback of `operation` enqueues it again. It is accepted when the batch
        ends."""
        batch = operation._where
        # This test and the assignment below are one step, like the engine's change of the state: a
        # batch that is ending accepts no more operations.
        if not isinstance(batch, OperationBatch) or batch.state is not BatchState.IN_FLIGHT:
            raise AlreadyEnqueuedError
        batch.requeued[id(operation)] = operation

    def _check_all(self, given: list[Operation], arrivals: Arrivals) -> None:
        """Check all operations and claim them for the chunk."""
        self._home.check_fork()
        chunk = arrivals.chunk
        chunk.operations = given
        watcher: Watcher | None = None
        ceiling: float = NEVER
        for operation in given:
            try:
                if operation._watcher is not watcher or operation._cost > ceiling:
                    watcher, ceiling = self._look_at(operation, arrivals)
                if operation._order is not None or not operation._batchable:
                    arrivals.meet(watcher, plain=False, single=not operation._batchable)
                while operation._where is not None:
                    if operation._where is chunk:
                        raise AlreadyEnqueuedError  # the call has it twice
                    if not self.may_enter(operation):
                        arrivals.add_own(operation)
                        break
                else:
                    operation._where = chunk
            except AttributeError:
                raise self.explain(operation) from None
        if arrivals.own:
            chunk.operations = [one for one in given if id(one) not in arrivals.own]
        chunk.end = len(chunk.operations)

    def _look_at(self, operation: Operation, arrivals: Arrivals) -> tuple[Watcher | None, float]:
        """Check one operation. Return its watcher, and the highest cost at which the next operation
        of this watcher needs no such check."""
        cost = self._check(operation)
        if cost is not operation._cost:
            arrivals.normal.append((operation, cost))
        watcher = operation._watcher
        assert watcher is not None
        arrivals.meet(watcher)
        return watcher, NEVER if watcher._terms.batch_cost else self._buffer.ceiling

    def _adopt(self, watcher: Watcher) -> None:
        """Register `watcher` with this Batcher, unless it is registered. `Batcher.enqueue` compares
        only the cost of an operation; it accepts operations of a watcher without this class only if
        the watcher's batches have no cost of their own."""
        door = self if watcher._terms.batch_cost else self._home
        if watcher._home is door:
            return
        watcher._batchers[id(self._home)] = self._home
        self._buffer.adopt(watcher._terms.max_batch_size or math.inf)
        watcher._home = door


class Arrivals:
    """The operations of one enqueue_many, sorted by how they are accepted."""

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        """The operations that are to be published."""
        self.own: dict[int, Operation] = {}
        """Operations in flight that their own callback enqueues again, by identity."""
        self.watchers: dict[int, Watcher] = {}
        """The watchers of the operations, by identity."""
        self.normal: list[tuple[Operation, AnyCost]] = []
        """Operations whose cost has another form in the limiter, and that cost."""
        self.single = False
        """Whether any operation is a full batch by itself."""

    def add_own(self, operation: Operation) -> None:
        """Note an operation that its own callback enqueues again."""
        if id(operation) in self.own:
            raise AlreadyEnqueuedError
        self.own[id(operation)] = operation

    def meet(self, watcher: Watcher | None, *, plain: bool = True, single: bool = False) -> None:
        """Note the watcher of an operation, and whether the operation is plain or a full batch by
        itself."""
        assert watcher is not None
        self.watchers[id(watcher)] = watcher
        self.single = self.single or single
        self.chunk.plain = self.chunk.plain and plain and len(self.watchers) == 1
