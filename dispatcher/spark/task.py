"""What runs in a Python worker of an executor: one part of a micro-batch, sent and acknowledged.

Nothing survives the task: its Batcher and its limiter are made when its first row comes, and
give back what they hold when it ends. So there is nothing that an idle worker could hold, and
nothing to be lost when Spark kills it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dispatcher.batcher import Batcher, State
from dispatcher.errors import BufferFullError, TooExpensiveError
from dispatcher.handler import load
from dispatcher.operation import Operation
from dispatcher.outcomes import Reject, Retry, Throttled
from dispatcher.retry import RetryPolicy
from dispatcher.spark.claims import Claim
from dispatcher.spark.context import Context, key_of
from dispatcher.spark.cutting import Cut, Unit, name_of, units_of
from dispatcher.spark.dead_letters import target_of
from dispatcher.spark.errors import BatchFailedError, SparkSinkError, UnusableRowsError
from dispatcher.spark.groups import Columns, Group, groups_of
from dispatcher.spark.ledger import Entry, Time
from dispatcher.spark.progress import Counter, Telling
from dispatcher.spark.row_formats import FORMATS, Format, OfMessages, Rows
from dispatcher.spark.sender import Sender
from dispatcher.spark.sending import Sending
from dispatcher.spark.sums import Sums
from dispatcher.watcher import Watcher

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

LOOK = 0.1
"""How often whoever waits looks whether a batch has failed, in seconds."""


@dataclass(frozen=True)
class Job:
    """All that a task has to know. Plain values."""

    sending: Sending
    columns: Columns
    cut: Cut
    time_kind: str
    """Of the time column: timestamp, timestamp_ntz, date or number."""
    query: str
    batch: int
    claim: Claim | None
    """None: nothing is remembered, and a replay sends everything again."""
    counter: Counter | None = None
    """Where it is told how far it is, if somebody wants to know."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sends a task's rows; gives one row, with the sums."""
        import pyarrow as pa

        task = Task(self)
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            task.run(_again(first, filled))
        numbers = {name: [number] for name, number in task.sums.numbers.items()}
        yield pa.RecordBatch.from_pydict(numbers)


def _again(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


class Task:
    """One part of a micro-batch."""

    def __init__(self, job: Job) -> None:
        self._job = job
        sending = job.sending
        self._handler = load(sending.handler)  # before anything is sent, and without any row
        self._dead_letters = target_of(sending.dead_letters) if sending.dead_letters else None
        self._policy = RetryPolicy.of(sending.retry, sending.max_attempts)
        self._format: Format = FORMATS[sending.rows]()
        if job.columns.messages is not None:
            self._format = OfMessages(job.columns.messages, self._format)
        self._sender: Sender | None = None
        self._failed: BaseException | None = None
        self.sums = Sums()

    def run(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Sends all rows of `batches`, and returns when all are acknowledged."""
        job, sending = self._job, self._job.sending
        with contextlib.ExitStack() as stack:
            if job.counter is not None:
                stack.enter_context(Telling(job.counter, self.sums))
            if job.claim is not None:
                slot = str(_partition())
                self._sender = stack.enter_context(Sender(job.claim, slot, sending.patience))
            batcher = Batcher(
                rate_limiter=sending.limiter.build() if sending.limiter else None,
                max_buffer_size=4 * sending.concurrency,
                max_concurrent_batches=sending.concurrency,
                max_operation_time=sending.max_operation_time,
            )
            watcher = Watcher(
                self._send_async if self._handler.is_async else self._send,
                retry=sending.retry,
                max_attempts=sending.max_attempts,
                on_failure=self._give_up,
            )
            try:
                self._send_all(batches, batcher, watcher)
            finally:
                if batcher.state is not State.NEW:
                    # What is in flight ends, and is acknowledged; what is not has not begun.
                    batcher.stop(drain=False)

    # What is to be sent.

    def _send_all(
        self, batches: Iterable[pa.RecordBatch], batcher: Batcher, watcher: Watcher
    ) -> None:
        job, sending = self._job, self._job.sending
        for groups in groups_of(batches, job.columns, self._format, in_order=job.cut.in_order):
            entries = self._entries(groups)
            for group in groups:
                for unit in self._units(group, entries):
                    self._enqueue(unit, batcher, watcher)
                    # It asks for capacity as soon as it starts: for as much as it can use.
                    if batcher.operations_in_buffer == sending.concurrency:
                        _start(batcher)
        _start(batcher)
        while not watcher.wait(LOOK):
            self._check()
        self._check()

    def _entries(self, groups: list[Group]) -> dict[bytes, Entry]:
        if self._sender is None or not groups:
            return {}
        return self._sender.look_up([name_of(group.sequence) for group in groups])

    def _units(self, group: Group, entries: dict[bytes, Entry]) -> Iterator[Unit]:
        job = self._job
        entry = entries.get(name_of(group.sequence)) or Entry()
        self.sums.add(rows=group.size)
        size = 0
        for unit in units_of(group, job.cut, entry, job.batch, self._costs, self._format):
            size += unit.size
            yield unit
        self.sums.add(replayed_rows=group.size - size)

    def _costs(self, group: Group, rows: Rows) -> float | np.ndarray[Any, Any]:
        import numpy as np

        price = self._job.sending.cost_of_row
        if price is None:
            costs = np.concatenate(group.costs)
        else:
            told = self._format.costs(rows, price)
            if isinstance(told, float):
                return told
            costs = np.array(told, float)
        if not (np.isfinite(costs) & (costs >= 0)).all():
            raise UnusableRowsError(
                f"the cost of a row of {group.sequence!r} is null, negative or not finite"
            )
        return costs

    def _enqueue(self, unit: Unit, batcher: Batcher, watcher: Watcher) -> None:
        if unit.refused and self._dead_letters is None:
            raise UnusableRowsError(
                f"{unit.size} rows or more cannot be sent, such as one of subject "
                f"{unit.subject!r} in micro-batch {self._job.batch}: {unit.refused}. Filter them "
                "out, or give the sink a target for dead letters"
            )
        unit.waiting_since = time.monotonic()
        while True:
            self._check()
            cost = 0.0 if unit.refused else unit.cost
            key = unit.sequence if self._job.cut.in_order else None
            try:
                return batcher.enqueue(Operation(watcher, cost, unit, key=key), LOOK)
            except BufferFullError:
                continue
            except TooExpensiveError as error:
                # It is given up in its turn, like every batch.
                unit.refused = f"{error}; max_batch_cost keeps batches below it"
                if self._dead_letters is None:
                    raise BatchFailedError(f"{self._told(unit)}: {unit.refused}") from error

    def _check(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self._sender is not None:
            self._sender.may_begin()

    # One batch. These run on the Batcher's threads, or on its loop.

    def _send(self, operations: list[Operation]) -> None:
        (operation,) = operations
        unit: Unit = operation.payload
        if not unit.sent:
            if self._sender is not None:
                self._sender.wait_for_leave()
            self._begins(unit, operation)
            if not unit.refused:
                try:
                    self._handler.bound(self._context(unit, operation.attempt))(unit.rows)
                except Exception as error:
                    self._judge(unit, operation.attempt, error)
            if unit.refused:
                self._bury(unit)
            unit.sent = True
        if (written := self._acknowledged(unit)) is not None:
            written.result()
        self._ended(unit)

    async def _send_async(self, operations: list[Operation]) -> None:
        (operation,) = operations
        unit: Unit = operation.payload
        if not unit.sent:
            if self._sender is not None and not self._sender.may_begin():
                await asyncio.to_thread(self._sender.wait_for_leave)
            self._begins(unit, operation)
            if not unit.refused:
                try:
                    await self._handler.bound(self._context(unit, operation.attempt))(unit.rows)
                except Exception as error:
                    self._judge(unit, operation.attempt, error)
            if unit.refused:
                await asyncio.to_thread(self._bury, unit)
            unit.sent = True
        if (written := self._acknowledged(unit)) is not None:
            await asyncio.wrap_future(written)
        self._ended(unit)

    def _begins(self, unit: Unit, operation: Operation) -> None:
        now = time.monotonic()
        if operation.attempt > 1:
            self.sums.add(retries=1, cost=unit.cost)
            return
        unit.begun_at = now
        waited = now - unit.waiting_since
        self.sums.add(waited=waited, longest_wait=waited, cost=unit.cost)

    def _judge(self, unit: Unit, attempt: int, error: Exception) -> None:
        """Raises `error`, for the Batcher to try again or to give up; but what is given up and
        has a target for dead letters goes there now, before anything later of its sequence."""
        if isinstance(error, Throttled):
            self.sums.add(throttled=1)
        policy, elapsed = self._policy, time.monotonic() - unit.begun_at
        if isinstance(error, (Retry, Throttled)):
            given_up = not policy.may_repeat(attempt)
        else:
            given_up = isinstance(error, Reject) or policy.delay(attempt, elapsed, error) is None
        if self._dead_letters is None or not given_up:
            raise error
        unit.refused = f"{type(error).__name__}: {error}"

    def _acknowledged(self, unit: Unit) -> Future[None] | None:
        if self._sender is None:
            return None
        return self._sender.acknowledge(unit.sequence, unit.entry)

    def _ended(self, unit: Unit) -> None:
        late = unit.size * unit.late
        if unit.refused:
            self.sums.add(rejected_rows=unit.size, late_rows=late)
        else:
            self.sums.add(batches=1, sent_rows=unit.size, late_rows=late)

    def _bury(self, unit: Unit) -> None:
        assert self._dead_letters is not None
        self._dead_letters(self._format.dicts(unit.rows), self._context(unit, 0, unit.refused))

    def _give_up(self, operations: list[Operation], error: BaseException) -> None:
        """What failed for good, and has nowhere to go: the task fails."""
        if self._failed is None:
            (operation,) = operations
            failed: BaseException = error
            if not isinstance(error, SparkSinkError):
                failed = BatchFailedError(
                    f"{self._told(operation.payload)} failed for good after {operation.attempt} "
                    f"attempts: {error!r}"
                )
                failed.__cause__ = error
            self._failed = failed

    def _context(self, unit: Unit, attempt: int, reason: str = "") -> Context:
        job = self._job
        checkpoint = job.claim.place.checkpoint if job.claim is not None else ""
        facts = (unit.sequence, unit.first, unit.last, unit.start, unit.size)
        return Context(
            job.query,
            job.batch,
            unit.subject,
            _instant(unit.first, job.time_kind),
            _instant(unit.last, job.time_kind),
            key_of(job.query, checkpoint, job.batch, *facts),
            attempt,
            unit.late,
            reason,
        )

    def _told(self, unit: Unit) -> str:
        return (
            f"a batch of {unit.size} rows of subject {unit.subject!r} in micro-batch "
            f"{self._job.batch} of query {self._job.query!r}"
        )


def _start(batcher: Batcher) -> None:
    if batcher.state is State.NEW:
        batcher.start()


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


def _instant(time: Time | None, kind: str) -> Any:
    """A time as users know it."""
    if time is None or kind == "number":
        return time
    if kind == "date":
        return date(1970, 1, 1) + timedelta(days=time)
    zone = UTC if kind == "timestamp" else None
    return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=time)
