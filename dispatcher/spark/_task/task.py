"""Sends and acknowledges one part of a micro-batch, in a Python worker of an executor.

The Batcher and the limiter of a task are made when its first row comes, and return their capacity
when it ends. So an idle worker holds no capacity, and nothing is lost when Spark kills it.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dispatcher.batcher import Batcher
from dispatcher.errors import BatchAbandonedError
from dispatcher.spark._ledger.claims import SendClaim
from dispatcher.spark._ledger.division import Division
from dispatcher.spark._ledger.entry import LedgerEntry
from dispatcher.spark._ledger.sender import Sender
from dispatcher.spark._options import DeliveryOptions, prices_of
from dispatcher.spark._prices import TaskPrice
from dispatcher.spark._rows.cutting import (
    Cut,
    OtherRowsError,
    Unit,
    name_in_lane,
    name_of,
    units_of,
)
from dispatcher.spark._rows.formats import FORMATS, Format, OfMessages, Rows
from dispatcher.spark._rows.groups import Columns, RowGroup, groups_of
from dispatcher.spark._rows.packs import Packer
from dispatcher.spark._rows.row_costs import RowCosts, numbers
from dispatcher.spark._task.delivery import Delivery
from dispatcher.spark._task.gating import GateSource, Gating
from dispatcher.spark._task.limit import TaskLimit
from dispatcher.spark._task.micro_batch_id import MicroBatchId
from dispatcher.spark._task.outbox import LOOK, Outbox
from dispatcher.spark._task.progress import Counter, Reporting
from dispatcher.spark._task.sums import Sums
from dispatcher.spark.errors import ChangedSinkError
from dispatcher.state import State
from limiters._support.validation import in_seconds

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

WAITING, PACKS_WAITING = 16, 4
"""How many batches wait for each batch that may be in flight. A limiter requests capacity for the
operations that wait, so there must be enough of them. Packs are larger, and their rows are in
memory."""


@dataclass(frozen=True)
class TaskJob:
    """The description of what tasks do. Plain values."""

    sending: DeliveryOptions
    columns: Columns
    cut: Cut
    time_kind: str
    """The kind of the time column: timestamp, timestamp_ntz, date or number."""
    query: str
    batch: int
    claim: SendClaim | None
    """The claim of the micro-batch; None: no ledger is kept, and a replay sends everything
    again."""
    counter: Counter | None = None
    """The counter to which tasks report their progress; None: it is not shown."""
    gate: GateSource | None = None
    division: Division | None = None
    """How subjects share batches; None: each subject has batches of its own."""
    repeatable: bool = True
    """Whether a replay has the same rows and can be recognised as one, so that keys are the
    same."""

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions in which rows or batches cost something; "" where costs are numbers."""
        return tuple(dict.fromkeys((*prices_of(self.sending).dimensions, *self.columns.costs)))

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send a task's rows, and return one row with the sums."""
        import pyarrow as pa

        task = Task(self)
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            task.run(_again(first, filled))
        numbers = {name: [number] for name, number in task.sums.numbers.items()}
        yield pa.RecordBatch.from_pydict(numbers)


class Task:
    """One part of a micro-batch."""

    def __init__(self, job: TaskJob) -> None:
        self._job = job
        sending = job.sending
        self._format: Format = FORMATS[sending.rows]()
        if job.columns.messages is not None:
            self._format = OfMessages(job.columns.messages, self._format)
        self._gating = None if job.gate is None else Gating(job.gate, self._format)
        prices = prices_of(sending)
        self.sums = Sums(job.dimensions)
        self._delivery = Delivery(sending, _micro_batch_of(job), self._format, self.sums)
        self._limit: TaskLimit | None = None
        self._slots = prices.form.slots
        self._prices = prices.of_tasks
        for dimension in job.columns.costs:
            self._prices.pop(dimension, None)
        self._any_row: RowCosts | None = None
        """The cost of each row, if all have the same cost."""
        if job.columns.messages is None and not job.columns.costs:
            amounts = {name: one for name, one in self._prices.items() if isinstance(one, float)}
            if len(amounts) == len(self._prices):
                self._any_row = RowCosts(amounts)

    def run(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Send all rows of `batches`, and return when all are acknowledged."""
        job, sending = self._job, self._job.sending
        patience = in_seconds(sending.patience)
        with contextlib.ExitStack() as stack:
            if self._gating is not None:
                stack.callback(self._gating.close)
            if job.counter is not None:
                stack.enter_context(Reporting(job.counter, self.sums))
            if job.claim is not None:
                sender = Sender(job.claim, str(_partition()), patience)
                self._delivery.sender = stack.enter_context(sender)
            if sending.limiter is not None:
                self._limit = TaskLimit(sending.limiter, patience)
            waiting = WAITING if job.division is None else PACKS_WAITING
            batcher = Batcher(
                rate_limiter=self._limit.limiter if self._limit is not None else None,
                max_buffer_size=waiting * sending.concurrency,
                max_concurrent_batches=sending.concurrency,
                max_operation_time=sending.max_operation_time,
            )
            outbox = Outbox(sending, batcher, self._delivery, self._check_waiting)
            try:
                self._send_all(batches, outbox)
            finally:
                if batcher.state is not State.NEW:
                    # Batches in flight end and are acknowledged; no others are begun.
                    batcher.stop(drain=False)

    # What is to be sent.

    def _send_all(self, batches: Iterable[pa.RecordBatch], outbox: Outbox) -> None:
        job, sending = self._job, self._job.sending
        packer = Packer(job.division, in_order=job.cut.in_order)
        for groups in groups_of(batches, job.columns, self._format, in_order=job.cut.in_order):
            entries = self._entries(groups)
            for group in groups:
                units = self._units(group, entries)
                self._hold(units, outbox)
                for pack in packer.add(units):
                    outbox.send(pack)
        for pack in packer.rest():
            outbox.send(pack)
        outbox.finish()
        self._delivery.check()
        if self.sums.done < self.sums.numbers["rows"]:
            # The handler of an abandoned batch has not even begun.
            self._delivery.abandoned(BatchAbandonedError(in_seconds(sending.max_operation_time)))
            self._delivery.check()

    def _check_waiting(self) -> None:
        """Raise if waiting packs cannot be sent any more."""
        self._delivery.check()
        if self._limit is not None:
            self._limit.check(self._delivery.begun_at)

    def _entries(self, groups: list[RowGroup]) -> dict[bytes, LedgerEntry]:
        sender = self._delivery.sender
        if sender is None or not groups:
            return {}
        return sender.look_up([name_of(group.sequence) for group in groups])

    def _units(self, group: RowGroup, entries: dict[bytes, LedgerEntry]) -> list[Unit]:
        job = self._job
        entry = entries.get(name_of(group.sequence)) or LedgerEntry()
        before = 0 if job.cut.in_order else int(self.sums.numbers["rows"])
        self.sums.add(rows=group.size)
        try:
            units = list(
                units_of(
                    group,
                    job.cut,
                    entry,
                    job.batch,
                    self._costs,
                    self._format,
                    self._of_subjects(group),
                )
            )
        except OtherRowsError:
            raise ChangedSinkError(
                f"of subject {group.sequence!r}, {entry.rows} rows of micro-batch {job.batch} of "
                f"query {job.query!r} were sent before, and they are not the first of those that "
                "it has now: it is unknown which were sent. Let the query finish this "
                "micro-batch with the filters and columns that it began with, and change it then. "
                "If a column differs each time that Spark runs, such as uuid(), name the columns "
                "that do not: identity=[...]"
            ) from None
        for unit in units:
            unit.start += before
        self.sums.add(
            replayed_rows=group.size - sum(unit.size for unit in units if not unit.acknowledged)
        )
        return units

    def _of_subjects(self, group: RowGroup) -> dict[Any, LedgerEntry]:
        """Return the entries of the subjects of a lane, if rows are late by subject."""
        sender = self._delivery.sender
        if sender is None or not self._job.cut.late_by_subject:
            return {}
        names = {one: name_in_lane(group.sequence, one) for one in dict.fromkeys(group.subjects)}
        found = sender.look_up(list(names.values()))
        return {subject: found[name] for subject, name in names.items()}

    def _costs(self, group: RowGroup, rows: Rows) -> RowCosts:
        import numpy as np

        if self._any_row is not None:
            return self._any_row
        refused: dict[int, str] = {}
        costs = {
            name: self._amounts(name, price, group, rows, refused)
            for name, price in self._prices.items()
        } | {name: np.concatenate(amounts) for name, amounts in group.costs.items()}
        return RowCosts.checked(costs, refused, self._slots)

    def _amounts(
        self,
        dimension: str,
        price: TaskPrice,
        group: RowGroup,
        rows: Rows,
        refused: dict[int, str],
    ) -> float | np.ndarray[Any, Any]:
        """Return the costs of the rows in one dimension, or one number for all rows. Rows for which
        a function has no number are added to `refused`."""
        import numpy as np

        readable: Sequence[int] = range(group.size)
        if group.unreadable:
            readable = [one for one in readable if one not in group.unreadable]
            found, wrong = self._one_by_one(dimension, price, rows, readable)
        else:
            try:
                costs_of_rows = self._format.costs(rows, price)
                if isinstance(costs_of_rows, float):
                    return costs_of_rows
                found, wrong = numbers(costs_of_rows, dimension)
            except Exception:  # of some row at least
                found, wrong = self._one_by_one(dimension, price, rows, readable)
        for index, reason in wrong.items():
            refused.setdefault(readable[index], reason)
        costs = np.zeros(group.size)
        costs[readable] = found
        return costs

    def _one_by_one(
        self, dimension: str, price: TaskPrice, rows: Rows, places: Sequence[int]
    ) -> tuple[np.ndarray[Any, Any], dict[int, str]]:
        """Return the costs of the rows at `places`, and why some have none, by their index."""
        values, wrong = list[Any](), dict[int, str]()
        of = f" of {dimension}" if dimension else ""
        for index, place in enumerate(places):
            try:
                cost = self._format.costs(self._format.part(rows, place, place + 1), price)
                values += [cost] if isinstance(cost, float) else cost
            except Exception as error:  # the user's function raised
                values.append(0.0)
                wrong[index] = f"its cost{of}, a function of a row, has raised {error!r}"
        found, others = numbers(values, dimension)
        return found, wrong | others

    def _hold(self, units: list[Unit], outbox: Outbox) -> None:
        """Put units of subjects that are not registered into the gate. Each such unit is
        acknowledged immediately, after the units before it, so that a replay does not put it there
        again. Packs do not change by that, since they are made of all units."""
        if self._gating is None:
            return
        for place, unit in enumerate(units):
            if unit.refused or unit.acknowledged:
                continue
            while not self._delivery.may_begin():
                time.sleep(LOOK)
            if self._gating.holds(unit):
                outbox.send_and_wait(units[:place])
                self._delivery.put_aside(unit)


def _micro_batch_of(job: TaskJob) -> MicroBatchId:
    return MicroBatchId(
        job.query,
        job.batch,
        checkpoint=job.claim.place.checkpoint if job.claim is not None else "",
        time_kind=job.time_kind,
        run="" if job.repeatable and job.cut.in_order else uuid.uuid4().hex,
        by_subject=job.cut.same_subject,
    )


def _again(first: Any, others: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from others


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
