"""What runs in a Python worker of an executor: one part of a micro-batch, sent and acknowledged.

Nothing survives the task: its Batcher and its limiter are made when its first row comes, and
give back what they hold when it ends. So there is nothing that an idle worker could hold, and
nothing to be lost when Spark kills it.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatcher.batcher import Batcher
from dispatcher.errors import BatchAbandonedError, BufferFullError, TooExpensiveError
from dispatcher.events import BATCH_ABANDONED
from dispatcher.operation import Operation
from dispatcher.spark._ledger.claims import SendClaim
from dispatcher.spark._ledger.entry import LedgerEntry
from dispatcher.spark._ledger.sender import Sender
from dispatcher.spark._options import DeliveryOptions, cost_of_row
from dispatcher.spark._rows.cutting import Cut, OtherRowsError, Unit, name_of, units_of
from dispatcher.spark._rows.formats import FORMATS, Format, OfMessages, Rows
from dispatcher.spark._rows.groups import Columns, RowGroup, groups_of
from dispatcher.spark._task.delivery import Delivery, MicroBatchId
from dispatcher.spark._task.gating import GateSource, Gating
from dispatcher.spark._task.limit import TaskLimit
from dispatcher.spark._task.progress import Counter, Telling
from dispatcher.spark._task.sums import Sums
from dispatcher.spark.errors import BatchFailedError, ChangedSinkError, UnusableRowsError
from dispatcher.state import State
from dispatcher.watcher import Watcher
from limiters._support.validation import in_seconds

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

WAITING = 16
"""How many batches wait for each that may be in flight: a limiter grants what it is asked for,
and it is asked for what waits."""
LOOK = 0.1
"""How often whoever waits looks whether a batch has failed, in seconds."""


@dataclass(frozen=True)
class TaskJob:
    """All that a task has to know. Plain values."""

    sending: DeliveryOptions
    columns: Columns
    cut: Cut
    time_kind: str
    """Of the time column: timestamp, timestamp_ntz, date or number."""
    query: str
    batch: int
    claim: SendClaim | None
    """None: nothing is remembered, and a replay sends everything again."""
    counter: Counter | None = None
    """Where it is told how far it is, if somebody wants to know."""
    gate: GateSource | None = None

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

    def __init__(self, job: TaskJob) -> None:
        self._job = job
        sending = job.sending
        self._format: Format = FORMATS[sending.rows]()
        if job.columns.messages is not None:
            self._format = OfMessages(job.columns.messages, self._format)
        self._gating = None if job.gate is None else Gating(job.gate, self._format)
        self.sums = Sums()
        checkpoint = job.claim.place.checkpoint if job.claim is not None else ""
        # Rows in no order are not the same ones in a replay: no key may be either.
        run = "" if job.cut.in_order else uuid.uuid4().hex
        of = MicroBatchId(job.query, job.batch, checkpoint, job.time_kind, run)
        self._delivery = Delivery(sending, of, self._format, self.sums)
        self._limit: TaskLimit | None = None
        self._price = cost_of_row(sending)

    def run(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Sends all rows of `batches`, and returns when all are acknowledged."""
        job, sending = self._job, self._job.sending
        patience = in_seconds(sending.patience)
        with contextlib.ExitStack() as stack:
            if self._gating is not None:
                stack.callback(self._gating.close)
            if job.counter is not None:
                stack.enter_context(Telling(job.counter, self.sums))
            if job.claim is not None:
                sender = Sender(job.claim, str(_partition()), patience)
                self._delivery.sender = stack.enter_context(sender)
            if sending.limiter is not None:
                self._limit = TaskLimit(sending.limiter, patience)
            batcher = Batcher(
                rate_limiter=self._limit.limiter if self._limit is not None else None,
                max_buffer_size=WAITING * sending.concurrency,
                max_concurrent_batches=sending.concurrency,
                max_operation_time=sending.max_operation_time,
            )
            watcher = self._delivery.watcher(sending)
            abandoned = self._delivery.abandoned
            batcher.add_listener(lambda event: abandoned(event.metadata), BATCH_ABANDONED)
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
        enqueued = 0
        for groups in groups_of(batches, job.columns, self._format, in_order=job.cut.in_order):
            entries = self._entries(groups)
            for group in groups:
                for unit in self._units(group, entries):
                    if self._waits_in_gate(unit, batcher):
                        continue
                    self._enqueue(unit, batcher, watcher)
                    enqueued += 1
                    # It asks for capacity as soon as it starts: for as much as it can use.
                    if enqueued == sending.concurrency:
                        _started(batcher)
        _started(batcher)
        while not watcher.wait(LOOK):
            self._check_waiting()
        self._delivery.check()
        if self.sums.done < self.sums.numbers["rows"]:
            # An event comes a little later than what it tells of.
            self._delivery.abandoned(BatchAbandonedError(in_seconds(sending.max_operation_time)))
            self._delivery.check()

    def _check_waiting(self) -> None:
        """Raises if what waits cannot be sent any more."""
        self._delivery.check()
        if self._limit is not None:
            self._limit.check(self._delivery.begun_at)

    def _entries(self, groups: list[RowGroup]) -> dict[bytes, LedgerEntry]:
        sender = self._delivery.sender
        if sender is None or not groups:
            return {}
        return sender.look_up([name_of(group.sequence) for group in groups])

    def _units(self, group: RowGroup, entries: dict[bytes, LedgerEntry]) -> Iterator[Unit]:
        job = self._job
        entry = entries.get(name_of(group.sequence)) or LedgerEntry()
        before = 0 if job.cut.in_order else int(self.sums.numbers["rows"])
        self.sums.add(rows=group.size)
        size = 0
        previous: Unit | None = None
        try:
            for unit in units_of(group, job.cut, entry, job.batch, self._costs, self._format):
                size += unit.size
                unit.start += before
                if job.cut.in_order:
                    unit.previous, previous = previous, unit
                yield unit
        except OtherRowsError:
            raise ChangedSinkError(
                f"of subject {group.sequence!r}, {entry.rows} rows of micro-batch {job.batch} of "
                f"query {job.query!r} were sent before, and they are not the first of those that "
                "it has now: nobody could say which were sent. Let the query finish this "
                "micro-batch with the filters and columns that it began with, and change it then. "
                "If a column differs each time that Spark runs, such as uuid(), name the columns "
                "that do not: identity=[...]"
            ) from None
        self.sums.add(replayed_rows=group.size - size)

    def _costs(self, group: RowGroup, rows: Rows) -> float | np.ndarray[Any, Any]:
        import numpy as np

        if group.costs:
            costs = np.concatenate(group.costs)
        else:
            readable: Sequence[int] | slice = slice(None)
            if group.unreadable:
                readable = [one for one in range(group.size) if one not in group.unreadable]
                rows = self._format.chosen(rows, readable)
            try:
                told = self._format.costs(rows, self._price)
                if isinstance(told, float):
                    return told
                costs = np.zeros(group.size)
                costs[readable] = told
            except Exception as error:  # of the user's function, or what it returned is no number
                raise UnusableRowsError(
                    f"cost, a function of a row, has failed for rows of {group.sequence!r}: "
                    f"{error!r}"
                ) from error
        if not (np.isfinite(costs) & (costs >= 0)).all():
            raise UnusableRowsError(
                f"the cost of a row of subject {group.sequence!r} in {self._where()} is null, "
                "negative or not finite: let cost give a number of zero or more for each row"
            )
        return costs

    def _where(self) -> str:
        """Which micro-batch it is, for people."""
        return f"micro-batch {self._job.batch} of query {self._job.query!r}"

    def _waits_in_gate(self, unit: Unit, batcher: Batcher) -> bool:
        """Whether it does from now on; that is written down then, before anything else is done."""
        if self._gating is None or unit.refused:
            return False
        while not self._delivery.may_begin():
            time.sleep(LOOK)
        if not self._gating.holds(unit):
            return False
        while unit.previous is not None and not unit.previous.acknowledged:
            _started(batcher)
            self._delivery.check()
            time.sleep(LOOK)
        self._delivery.put_aside(unit)
        return True

    def _enqueue(self, unit: Unit, batcher: Batcher, watcher: Watcher) -> None:
        if unit.refused and self._delivery.dead_letters is None:
            raise UnusableRowsError(
                f"a row of subject {unit.subject!r} in {self._where()} cannot be sent: "
                f"{unit.refused}. Filter such rows out, or give the sink dead_letters"
            )
        unit.waiting_since = time.monotonic()
        while True:
            self._delivery.check()
            cost = 0.0 if unit.refused else unit.cost
            key = unit.sequence if self._job.cut.in_order else None
            try:
                return batcher.enqueue(Operation(watcher, cost, unit, key=key), LOOK)
            except BufferFullError:
                self._check_waiting()
            except TooExpensiveError as error:
                # It is given up in its turn, like every batch.
                unit.refused = f"{error}; max_batch_cost keeps batches below it"
                if self._delivery.dead_letters is None:
                    raise BatchFailedError(
                        f"{self._delivery.told(unit)}: {unit.refused}"
                    ) from error


def _started(batcher: Batcher) -> None:
    if batcher.state is State.NEW:
        batcher.start()


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
