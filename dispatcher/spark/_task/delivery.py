"""How one batch is delivered: to the handler or to dead letters, and then acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, SupportsIndex

from dispatcher._failure_rule import FailureRule
from dispatcher._handler import load
from dispatcher._not_started import NotStarted
from dispatcher._retry import RetryPolicy
from dispatcher.operation import Operation
from dispatcher.outcomes import PartialFailure
from dispatcher.spark._ledger.entry import Time
from dispatcher.spark._ledger.sender import Sender
from dispatcher.spark._options import DeliveryOptions
from dispatcher.spark._rows.cutting import Unit
from dispatcher.spark._rows.formats import Format, Rows
from dispatcher.spark._task.measured_handler import MeasuredHandler
from dispatcher.spark._task.sums import Sums
from dispatcher.spark.context import Context, key_of
from dispatcher.spark.dead_letters import dead_letters_of
from dispatcher.spark.errors import BatchFailedError, RowsFailedError, SparkSinkError
from dispatcher.watcher import Watcher

if TYPE_CHECKING:
    import pyarrow as pa


_FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""What a handler may raise. A program that ends itself, or a task of the handler's that was
cancelled, ends a batch and nothing else."""


@dataclass(frozen=True)
class MicroBatchId:
    """Which micro-batch it is."""

    query: str
    batch: int
    checkpoint: str
    time_kind: str
    """Of the time column: timestamp, timestamp_ntz, date or number."""
    run: str = ""
    """What is in every key besides, if a replay does not have the same batches."""


class Delivery:
    """The callbacks of a task's Batcher. Each operation is one Unit.

    Of a sequence, none begins unless the one before it was acknowledged: what is remembered is
    how many of a sequence's rows were, so that none may be left out in between.
    """

    def __init__(
        self, sending: DeliveryOptions, of: MicroBatchId, rows: Format, sums: Sums
    ) -> None:
        # Before anything is sent, and without any row.
        self._handler = MeasuredHandler(load(sending.handler), sums)
        self.dead_letters = dead_letters_of(sending.dead_letters)
        self._policy = RetryPolicy.of(sending.retry, sending.max_attempts)
        self._of = of
        self._format = rows
        self._sums = sums
        self.sender: Sender | None = None
        self.failed: SparkSinkError | None = None
        """Why the task fails."""
        self.begun_at = time.monotonic()
        """When a batch began last, or the task."""

    def watcher(self, sending: DeliveryOptions) -> Watcher:
        """Whose callbacks these are."""
        return Watcher(
            self._send_async if self._handler.is_async else self._send,
            retry=sending.retry,
            max_attempts=sending.max_attempts,
            on_failure=self._give_up,
        )

    def may_begin(self) -> bool:
        """Whether something may be sent now. Raises if nothing may be sent any more."""
        if self.failed is not None:
            raise self.failed.again()
        return self.sender is None or self.sender.may_begin()

    def check(self) -> None:
        """Only raises."""
        self.may_begin()

    def put_aside(self, unit: Unit) -> None:
        """It waits in a gate, and counts as sent: whoever replays it must not have it wait twice,
        whatever fails after this."""
        if (written := self._acknowledged(unit)) is not None:
            written.result()
        unit.acknowledged = True
        self._sums.add(held_rows=unit.size, late_rows=unit.size * unit.late)

    def _send(self, operations: list[Operation]) -> None:
        (operation,) = operations
        unit: Unit = operation.payload
        if not unit.sent:
            self._check_turn(unit)
            self._begins(unit, operation)
            if not unit.refused:
                rows = self._rows(unit)
                handed = _listed(rows)
                try:
                    self._handler.bound(self._context(unit, operation.attempt))(rows)
                except _FAILURES as error:
                    self._judge(unit, handed, operation.attempt, error)
            if unit.refused and (waiting := self._bury(unit)) is not None:
                asyncio.run(_awaited(waiting))
            unit.sent = True
        if (written := self._acknowledged(unit)) is not None:
            written.result()
        self._ended(unit)

    async def _send_async(self, operations: list[Operation]) -> None:
        (operation,) = operations
        unit: Unit = operation.payload
        if not unit.sent:
            self._check_turn(unit)
            self._begins(unit, operation)
            if not unit.refused:
                rows = self._rows(unit)
                handed = _listed(rows)
                try:
                    await self._handler.bound(self._context(unit, operation.attempt))(rows)
                except _FAILURES as error:
                    if _is_cancelled():
                        raise
                    self._judge(unit, handed, operation.attempt, error)
            if unit.refused and (waiting := await asyncio.to_thread(self._bury, unit)) is not None:
                await waiting
            unit.sent = True
        if (written := self._acknowledged(unit)) is not None:
            await asyncio.wrap_future(written)
        self._ended(unit)

    def _rows(self, unit: Unit) -> Rows:
        """What is handed to the handler: at each attempt the rows as they came."""
        rows, unit.rows = unit.rows, None
        return self._format.of_records(self._records(unit)) if rows is None else rows

    def _records(self, unit: Unit) -> pa.RecordBatch:
        """What is left to be sent of `unit`."""
        import pyarrow as pa

        records = self._format.records(unit.source.batch())
        return records if unit.records is None else records.take(pa.array(unit.records, pa.int64()))

    def _check_turn(self, unit: Unit) -> None:
        if not self.may_begin():
            # While Redis is away. The Batcher takes it back, and charges it anew: what was charged
            # by then is not sent beside what is charged when Redis is there again.
            raise NotStarted
        if unit.previous is not None:
            if not unit.previous.acknowledged:
                raise BatchFailedError(f"{self.told(unit)} waits for one that has failed")
            unit.previous = None

    def _begins(self, unit: Unit, operation: Operation) -> None:
        now = self.begun_at = time.monotonic()
        if operation.attempt > 1:
            self._sums.add(retries=1, cost=operation.cost)
            return
        unit.begun_at = now
        waited = now - unit.waiting_since
        self._sums.add(waited=waited, longest_wait=waited, cost=operation.cost)

    def _judge(self, unit: Unit, handed: list[Any], attempt: int, error: BaseException) -> None:
        """Raises `error`, for the Batcher to try again or to give up; but what is given up and
        has a target for dead letters goes there now, before anything later of its sequence."""
        if isinstance(error, PartialFailure):
            if not error.failed:
                return
            error = self._narrow(unit, handed, error)
        rule = FailureRule(error, self._policy)
        if rule.throttled:
            self._sums.add(throttled=1)
        if rule.delay(attempt, time.monotonic() - unit.begun_at) is not None:
            raise error
        if self.dead_letters is None:
            # Noted here, before the Batcher raises what comes after it.
            self._fail(unit, attempt, error)
            raise error
        unit.refused = f"{type(error).__name__}: {error}"

    def _narrow(self, unit: Unit, handed: list[Any], error: PartialFailure) -> BaseException:
        """Leaves of `unit` only what has failed; why that is, or what is wrong with `error`."""
        places = {_identity(one): place for place, one in enumerate(handed)}
        try:
            failed = sorted({places[_identity(one)] for one in error.failed})
        except KeyError:
            return RowsFailedError(
                "PartialFailure must name rows of this batch, the very objects that the handler "
                'was given, or their numbers with rows="arrow"; the whole batch counts as failed'
            )
        left = unit.records or range(len(handed))
        unit.records = [left[place] for place in failed]
        return error.cause or RowsFailedError(f"{len(failed)} of {len(handed)} rows failed")

    def _acknowledged(self, unit: Unit) -> Future[None] | None:
        if self.sender is None:
            return None
        return self.sender.acknowledge(unit.sequence, unit.entry)

    def _ended(self, unit: Unit) -> None:
        unit.acknowledged = True
        sent = 0 if unit.refused else unit.size
        if unit.refused and unit.records is not None:
            sent = max(0, unit.size - len(unit.records))
        self._sums.add(
            batches=sent > 0,
            sent_rows=sent,
            rejected_rows=unit.size - sent,
            late_rows=unit.size * unit.late,
        )

    def _bury(self, unit: Unit) -> Awaitable[object] | None:
        assert self.dead_letters is not None
        context = self._context(unit, 0, unit.refused)
        return self.dead_letters.take(self._records(unit), context)

    def _give_up(self, operations: list[Operation], error: BaseException) -> None:
        """What failed for good, and has nowhere to go: the task fails."""
        (operation,) = operations
        self._fail(operation.payload, operation.attempt, error)

    def abandoned(self, error: object) -> None:
        """A handler does not return: nobody knows what becomes of its batch."""
        if self.sender is not None:
            self.sender.linger()
        if self.failed is None:
            self.failed = BatchFailedError(
                f"a handler has not returned in micro-batch {self._of.batch} of query "
                f"{self._of.query!r}: {error}. Its batch is sent again with the micro-batch; let "
                "the handler give up sooner, or give the sink a longer max_operation_time"
            )

    def _fail(self, unit: Unit, attempts: int, error: BaseException) -> None:
        if self.failed is not None:
            return
        if isinstance(error, SparkSinkError):
            self.failed = error
            return
        self.failed = BatchFailedError(
            f"{self.told(unit)} failed for good after {attempts} attempts: {error!r}"
        )
        self.failed.__cause__ = error

    def _context(self, unit: Unit, attempt: int, reason: str = "") -> Context:
        of = self._of
        facts: tuple[object, ...] = (of.run, unit.sequence, unit.first, unit.last)
        facts += (unit.start, unit.size)
        if unit.records is not None:  # the others were taken under the key of all
            facts += (tuple(unit.records),)
        return Context(
            query=of.query,
            batch_id=of.batch,
            subject=unit.subject,
            first=_instant(unit.first, of.time_kind),
            last=_instant(unit.last, of.time_kind),
            key=key_of(of.query, of.checkpoint, of.batch, *facts),
            attempt=attempt,
            late=unit.late,
            reason=reason,
        )

    def told(self, unit: Unit) -> str:
        return (
            f"a batch of {unit.size} rows of subject {unit.subject!r} in micro-batch "
            f"{self._of.batch} of query {self._of.query!r}"
        )


def _listed(rows: Rows) -> list[Any]:
    """What a handler may say of `rows` that failed, whatever it does to the list of them."""
    return list(rows) if isinstance(rows, list) else list(range(rows.num_rows))


def _identity(named: object) -> object:
    # A number may be one of numpy's.
    return named.__index__() if isinstance(named, SupportsIndex) else ("object", id(named))


def _is_cancelled() -> bool:
    """Whether the task that runs a handler is cancelled, rather than something in the handler."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _awaited(waiting: Awaitable[object]) -> None:
    await waiting


def _instant(time: Time | None, kind: str) -> Any:
    """A time as users know it."""
    if time is None or kind == "number":
        return time
    if kind == "date":
        return date(1970, 1, 1) + timedelta(days=time)
    zone = UTC if kind == "timestamp" else None
    return datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=time)
