"""The ways into a Batcher: one operation, many, or one from a coroutine.

The first lines of each are the fast way in; see `buffer` for why no lock is taken there.
"""

from __future__ import annotations

import bisect
import math
import time
from collections.abc import Iterable, Sequence

from dispatcher.batch import CURRENT, Batch
from dispatcher.buffer import Buffer, Chunk
from dispatcher.errors import (
    AlreadyEnqueuedError,
    BatcherStoppedError,
    BufferFullError,
    EnqueueError,
    ForkedError,
    NoOperationError,
    NoWatcherError,
    TooExpensiveError,
    TooManyAttemptsError,
)
from dispatcher.operation import Operation, attempt_of, cost_of, ticket_of
from dispatcher.watcher import Watcher
from limiters.arguments import Seconds, optional_seconds, seconds


class Entrance:
    """What accepts operations. The Batcher is one; this part of it owns no thread."""

    def __init__(self, buffer: Buffer, *, error_on_full_buffer: bool) -> None:
        self._buffer = buffer
        self._tickets = buffer.tickets
        self._inbox = buffer.inbox
        self._error_on_full_buffer = error_on_full_buffer
        self._forked = False

    def enqueue(self, operation: Operation, timeout: Seconds | None = None) -> None:
        """Accepts `operation`, to be raised to its watcher when its turn comes.

        While the buffer is full it waits for a place, for at most `timeout`; with
        `error_on_full_buffer` it raises BufferFullError at once. Thread-safe.

        Raises NoOperationError, NoWatcherError, TooExpensiveError, TooManyAttemptsError,
        AlreadyEnqueuedError, BufferFullError or BatcherStoppedError; what is refused leaves
        no trace. Within its own callback an operation may be enqueued again: that takes
        effect when its batch ends, and never blocks.
        """
        if timeout is not None:
            timeout = seconds("timeout", timeout, zero=True)
        try:
            known = operation._watcher._home is self  # type: ignore[union-attr]
            dear = operation._cost > self._buffer.ceiling
        except AttributeError:
            raise self._explain(operation) from None
        if dear:
            raise TooExpensiveError(operation._cost, self._buffer.ceiling)
        ticket = next(self._tickets)
        # Nothing is called between this test and the claim below, so that CPython switches
        # no threads in between: of two who enqueue one operation at once, one is refused.
        if operation._where is None:
            operation._where = ticket
        elif not self._enter_again(operation, ticket):
            return
        buffer = self._buffer
        if ticket >= buffer.limit:
            self._wait_for_place(operation, ticket, timeout)
        self._inbox.append(operation)
        if ticket >= buffer.ring_at or not known or not operation._batchable:
            self._arrived(operation, ticket)

    async def enqueue_async(self, operation: Operation, timeout: Seconds | None = None) -> None:
        """`enqueue` for coroutines: while the buffer is full, the event loop goes on."""
        self._check_fork()
        self._check(operation)
        ticket = next(self._tickets)
        if operation._where is None:
            operation._where = ticket
        elif not self._enter_again(operation, ticket):
            return
        if ticket >= self._buffer.limit:
            try:
                limit = self._patience(timeout)
                await self._buffer.wait_for_place_async(ticket, limit)
            except BaseException:
                self._give_up([operation])
                raise
        self._inbox.append(operation)
        self._arrived(operation, ticket)

    def enqueue_many(self, operations: Iterable[Operation], timeout: Seconds | None = None) -> None:
        """Accepts all of `operations`, in their order; the fastest way in.

        All are checked before any is accepted. With `error_on_full_buffer` all or none are
        accepted; otherwise it waits for places, for at most `timeout` in all, and if that is
        interrupted, the error's `accepted` says how many were accepted. Thread-safe.
        """
        self._check_fork()
        limit = optional_seconds("timeout", timeout, zero=True)
        deadline = None if limit is None else time.monotonic() + limit
        try:
            given = list(operations)
        except TypeError:
            raise ValueError(
                f"operations must be an iterable of operations, not {operations!r}; "
                "enqueue() takes a single one"
            ) from None
        arrivals = self._check_all(given)
        fresh = arrivals.fresh
        self._claim_all(fresh)
        posted = 0
        try:
            while posted < len(fresh):
                posted += self._post_admitted(arrivals, posted)
                if posted == len(fresh):
                    break
                if self._error_on_full_buffer:
                    raise BufferFullError(self._buffer.size)
                left = None if deadline is None else max(0.0, deadline - time.monotonic())
                self._buffer.wait_for_place(ticket_of(fresh[posted]), left)
        except BaseException as error:
            self._give_up(fresh[posted:])
            if isinstance(error, BatcherStoppedError):
                raise BatcherStoppedError(posted) from None
            if isinstance(error, BufferFullError):
                raise BufferFullError(self._buffer.size, posted) from None
            error.add_note(f"enqueue_many had accepted {posted} of {len(fresh)} operations")
            raise
        for operation in arrivals.own.values():
            self._requeue(operation)

    # Everything below is off the fast way.

    def _check(self, operation: Operation) -> None:
        if not isinstance(operation, Operation) or not isinstance(operation._watcher, Watcher):
            raise self._explain(operation)
        if not hasattr(operation._watcher, "_terms"):  # a class of the user's with its own __init__
            raise self._explain(operation)
        if operation._cost > self._buffer.ceiling:
            raise TooExpensiveError(operation._cost, self._buffer.ceiling)

    def _explain(self, given: object) -> EnqueueError:
        if isinstance(given, Operation):
            return NoWatcherError(given._watcher)
        return NoOperationError(given)

    def _check_fork(self) -> None:
        if self._forked:
            raise ForkedError

    def _patience(self, timeout: Seconds | None) -> float | None:
        limit = optional_seconds("timeout", timeout, zero=True)
        return 0.0 if self._error_on_full_buffer else limit

    def _enter_again(self, operation: Operation, ticket: int) -> bool:
        """Claims an operation that was enqueued before. False: its own callback asks; it is
        accepted when its batch ends, and the ticket is not needed."""
        try:
            if self._freshen(operation, ticket):
                return True
            self._requeue(operation)
        except BaseException:
            self._buffer.refuse([ticket])
            raise
        self._buffer.refuse([ticket])
        return False

    def _freshen(self, operation: Operation, ticket: int | None = None) -> bool:
        """An operation that has ended counts its last attempt, and is claimed by `ticket`, or
        nowhere. False: it is in flight, and its own callback asks. Raises if it may not enter.
        """
        self._check_fork()
        assert operation._watcher is not None
        policy = operation._watcher._terms.policy
        with self._buffer.lock:
            where = operation._where
            if where is None and ticket is None:  # freshened by another thread: who claims it?
                return True
            if not isinstance(where, Batch) or id(operation) in where.requeued:
                raise AlreadyEnqueuedError
            if not where.over and (CURRENT.get() is not where or where.ending):
                raise AlreadyEnqueuedError
            attempt = attempt_of(operation)
            if not policy.may_repeat(attempt):
                raise TooManyAttemptsError(attempt, policy.max_attempts or 0)
            if where.over:
                operation._attempts += 1
                operation._where = ticket
            return where.over

    def _requeue(self, operation: Operation) -> None:
        with self._buffer.lock:
            batch = operation._where
            if not isinstance(batch, Batch) or batch.over or batch.ending:
                raise AlreadyEnqueuedError
            batch.requeued[id(operation)] = operation

    def _check_all(self, operations: list[Operation]) -> Arrivals:
        arrivals = Arrivals(operations)
        ceiling = self._buffer.ceiling
        watcher: Watcher | None = None
        for operation in operations:
            try:
                if operation._watcher is not watcher or operation._cost > ceiling:
                    self._check(operation)
                    watcher = operation._watcher
                    arrivals.meet(watcher)
                if operation._order is not None or not operation._batchable:
                    arrivals.meet(watcher, plain=False, single=not operation._batchable)
                if operation._where is not None and not self._freshen(operation):
                    arrivals.add_own(operation)
            except AttributeError:
                raise self._explain(operation) from None
        if arrivals.own:
            arrivals.fresh = [one for one in operations if id(one) not in arrivals.own]
        return arrivals

    def _claim_all(self, operations: list[Operation]) -> None:
        for index, (operation, ticket) in enumerate(zip(operations, self._tickets, strict=False)):
            if operation._where is not None:  # handed in twice, or by two threads at once
                self._give_up(operations[:index], [ticket])
                raise AlreadyEnqueuedError
            operation._where = ticket

    def _post_admitted(self, arrivals: Arrivals, start: int) -> int:
        """Puts into the inbox what is admitted, from `start` on; how many that were."""
        fresh = arrivals.fresh
        limit = self._buffer.limit
        if ticket_of(fresh[-1]) < limit:
            admitted = fresh[start:] if start else fresh
        elif self._error_on_full_buffer:
            return 0
        else:
            end = bisect.bisect_left(fresh, limit, lo=start, key=ticket_of)
            admitted = fresh[start:end]
        if not admitted:
            return 0
        ticket = ticket_of(admitted[-1])
        if arrivals.uniform:
            watcher, _ = next(iter(arrivals.watchers.values()))
            self._post([Chunk(watcher, admitted, cost_of(admitted))])
        else:
            self._post(admitted)
        for watcher, single in arrivals.watchers.values():
            self._notice(watcher, ticket, single)
        return len(admitted)

    def _arrived(self, operation: Operation, ticket: int) -> None:
        if self._buffer.closed:
            try:
                self._reconsider([operation])
            except BaseException:
                operation._where = None
                raise
        self._notice(operation._watcher, ticket, not operation._batchable)

    def _post(self, items: Sequence[Operation | Chunk]) -> None:
        self._inbox.extend(items)
        if self._buffer.closed:
            self._reconsider(items)

    def _reconsider(self, items: Sequence[Operation | Chunk]) -> None:
        """The buffer was closed meanwhile: either the engine took them all, or none."""
        if self._buffer.withdraw(items):
            self._check_fork()
            raise BatcherStoppedError

    def _wait_for_place(self, operation: Operation, ticket: int, timeout: Seconds | None) -> None:
        try:
            self._check_fork()
            self._buffer.wait_for_place(ticket, self._patience(timeout))
        except BaseException:
            self._give_up([operation])
            raise

    def _give_up(self, operations: list[Operation], tickets: Iterable[int] = ()) -> None:
        """Undoes the claim on `operations`; `tickets` are others that were drawn for them."""
        unused = [ticket_of(operation) for operation in operations]
        for operation in operations:
            operation._where = None
        self._buffer.refuse([*unused, *tickets])

    def _notice(self, watcher: Watcher | None, ticket: int, full: bool) -> None:
        """Tells the engine what it has to hear of: a watcher, a full batch, a full buffer."""
        assert watcher is not None
        if watcher._home is not self:
            self._adopt(watcher, ticket)
        if full or ticket >= self._buffer.ring_at:
            self._buffer.call()

    def _adopt(self, watcher: Watcher, ticket: int) -> None:
        with self._buffer.lock:
            watcher._home = self  # type: ignore[assignment]  # the Batcher that this is part of
            watcher._batchers.add(self)  # type: ignore[arg-type]
            self._buffer.adopted = True
            full = watcher._terms.max_batch_size or math.inf
            self._buffer.ring_at = min(self._buffer.ring_at, ticket + full - 1)


class Arrivals:
    """What one enqueue_many brings, sorted out."""

    def __init__(self, operations: list[Operation]) -> None:
        self.fresh = operations
        """Those to be posted now."""
        self.own: dict[int, Operation] = {}
        """Those in flight that their own callback enqueues again, by identity."""
        self.watchers: dict[int, tuple[Watcher, bool]] = {}
        """By identity, and whether any of the watcher's operations is a full batch by itself."""
        self.uniform = True
        """Whether all are plain and of one watcher."""

    def add_own(self, operation: Operation) -> None:
        """Takes note of one that its own callback enqueues again."""
        if id(operation) in self.own:
            raise AlreadyEnqueuedError
        self.own[id(operation)] = operation

    def meet(self, watcher: Watcher | None, *, plain: bool = True, single: bool = False) -> None:
        """Takes note of one operation's kind."""
        assert watcher is not None
        _, before = self.watchers.get(id(watcher), (watcher, False))
        self.watchers[id(watcher)] = watcher, before or single
        self.uniform = self.uniform and plain and len(self.watchers) == 1
