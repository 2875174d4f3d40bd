"""Delivers one batch to the handler or to dead letters, and then acknowledges it.

A batch of several subjects that has failed for good as a whole is divided, so that only subjects
that the handler cannot take fail. The task divides it, since a callback must not wait for room in
its own Batcher.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import queue
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from dispatcher._failure_rule import FailureRule
from dispatcher._handler import load
from dispatcher._not_started import NotStarted
from dispatcher._retry import RetryPolicy
from dispatcher.errors import BatchAbandonedError, TooExpensiveError
from dispatcher.operation import Operation
from dispatcher.outcomes import PartialFailure
from dispatcher.spark._learned_prices import PackCost, scaled
from dispatcher.spark._ledger.sender import Sender
from dispatcher.spark._options import DeliveryOptions, prices_of
from dispatcher.spark._rows.cutting import Unit
from dispatcher.spark._rows.formats import Format, Rows
from dispatcher.spark._rows.packs import Pack
from dispatcher.spark._task.handed import listed, places_of
from dispatcher.spark._task.measured_handler import MeasuredHandler
from dispatcher.spark._task.micro_batch_id import MicroBatchId, context_of
from dispatcher.spark._task.settlement import CallSettlement
from dispatcher.spark._task.sums import Sums
from dispatcher.spark.context import Context, settled_by
from dispatcher.spark.dead_letters import dead_letters_of
from dispatcher.spark.errors import BatchFailedError, RowsFailedError, SparkSinkError
from dispatcher.watcher import OnBatch, Watcher
from limiters._support.validation import in_seconds

if TYPE_CHECKING:
    import pyarrow as pa


_FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""Exceptions of a handler that fail its batch only. Among them are those of a program that exits,
and of a task of the handler's that was cancelled."""


class Delivery:
    """The callbacks of a task's Batcher. Each operation is one Pack.

    A batch of a sequence begins only when the batch before it is acknowledged: the ledger stores
    how many rows of a sequence are acknowledged, so there must be no gap between them.
    """

    def __init__(
        self, sending: DeliveryOptions, micro_batch: MicroBatchId, rows: Format, sums: Sums
    ) -> None:
        handler = load(sending.handler)  # loaded before the first row, so that an error comes first
        self._handler = MeasuredHandler(handler, sums)
        self._takes_context = handler.takes_context
        self.dead_letters = dead_letters_of(sending.dead_letters)
        self._policy = RetryPolicy.of(sending.retry, sending.max_attempts)
        self.micro_batch = micro_batch
        self._format = rows
        self._sums = sums
        prices = prices_of(sending)
        self._batch_cost, self._form = prices.of_batch, prices.form
        self._learned, self._most = prices.learned, prices.most
        self._is_limited = sending.limiter is not None
        self.sender: Sender | None = None
        self.divided: queue.SimpleQueue[Pack] = queue.SimpleQueue()
        """Failed packs whose subjects are to be sent one by one."""
        self.failed: SparkSinkError | None = None
        """Why the task fails."""
        self.begun_at = time.monotonic()
        """The time when the last batch began, or the task."""
        self._longest = in_seconds(sending.max_operation_time)
        self._busy: dict[int, float] = {}
        """The packs whose callback runs, by identity, with the time when their handler began;
        infinity while no handler runs, such as while Redis stores an acknowledgement."""

    def watcher(self, sending: DeliveryOptions) -> Watcher:
        """Return the watcher that calls `_send` or `_send_async`."""
        return Watcher(
            self._callback(),
            retry=sending.retry,
            max_attempts=sending.max_attempts,
            on_failure=self._give_up,
        )._described_by(self._described)

    def _described(self, operations: list[Operation]) -> str:
        """Return a description of a batch for log lines of the Batcher, to which a pack is one
        operation."""
        (operation,) = operations
        named = self.micro_batch.named(operation.payload)
        return f"{named} (handler {self._handler.name}, attempt {max(1, operation.attempt)})"

    def _callback(self) -> OnBatch:
        """Return the callback under the name of the handler, which users recognise in log lines of
        the Batcher."""

        def send(operations: list[Operation]) -> None:
            self._send(operations)

        async def send_async(operations: list[Operation]) -> None:
            await self._send_async(operations)

        callback: OnBatch = send_async if self._handler.is_async else send
        callback.__qualname__ = self._handler.name
        return callback

    def operation(self, watcher: Watcher, pack: Pack) -> Operation:
        """Return the operation that sends `pack`. It is a batch by itself, so its cost includes
        that of a batch, unless no handler is called. Without a limit the cost is zero."""
        pack.factors = self._learned.factors()
        rows_cost = scaled(pack.cost, pack.factors)
        if pack.factors:  # what was learned may be more than the limit could ever grant
            rows_cost = self._most.bounded(rows_cost)
        pack.charge = rows_cost + self._batch_cost if pack.left else 0
        charge: Any = pack.charge if self._is_limited else 0
        if charge and pack.factors:
            rows = sum(
                unit.size if unit.records is None else len(unit.records) for unit in pack.left
            )
            charge = PackCost(charge, self._learned, self._batch_cost, rows)
        return Operation(watcher, charge, pack, key=pack.key)

    def may_begin(self) -> bool:
        """Whether a batch may be sent now. Raises if no more may be sent at all."""
        if self.failed is not None:
            raise self.failed.again()
        return self.sender is None or self.sender.may_begin()

    def check(self) -> None:
        """Raise if nothing may be sent any more. Called again and again while packs wait."""
        oldest = min(tuple(self._busy.values()), default=math.inf)
        if time.monotonic() - oldest > self._longest:
            self.abandoned(BatchAbandonedError(self._longest))
        self.may_begin()

    @property
    def is_busy(self) -> bool:
        """Whether the callback of some pack runs. The Batcher counts only those that are done in
        max_operation_time; one whose handler has returned may wait longer until Redis has stored
        that, for as long as the patience of the sender."""
        return bool(self._busy)

    @contextlib.contextmanager
    def _running(self, pack: Pack) -> Iterator[None]:
        self._busy[id(pack)] = math.inf
        try:
            yield
        finally:
            del self._busy[id(pack)]

    def put_aside(self, unit: Unit) -> None:
        """Acknowledge a unit that waits in a gate, so that a replay does not put it into the gate
        again."""
        if (written := self._written([unit])) is not None:
            written.result()
        unit.acknowledged = True
        self._sums.add(held_rows=unit.size, late_rows=unit.size * unit.late)

    def divide(self, pack: Pack) -> None:
        """Have the subjects of `pack` sent one by one from now on, in each replay as well."""
        pack.is_divided = True
        self.divided.put(pack)

    def _send(self, operations: list[Operation]) -> None:
        (operation,) = operations
        with self._running(operation.payload):
            self._send_pack(operation, operation.payload)

    def _send_pack(self, operation: Operation, pack: Pack) -> None:
        if not pack.sent:
            self._check_turn(pack)
            self._begins(pack, operation)
            self._send_dead_letters_now(pack)
            if pack.left:
                rows = self._rows(pack)
                handed = listed(rows)
                try:
                    self._handler.bound(self._context(pack, operation, handed))(rows)
                except _FAILURES as error:
                    self._judge(pack, handed, operation.attempt, error)
                finally:
                    self._note_settled(pack)
                if pack.is_divided:
                    return
                self._send_dead_letters_now(pack)
            pack.sent = True
            self._busy[id(pack)] = math.inf
        if (written := self._written(pack.units)) is not None:
            written.result()
        self._ended(pack)

    async def _send_async(self, operations: list[Operation]) -> None:
        (operation,) = operations
        with self._running(operation.payload):
            await self._send_pack_async(operation, operation.payload)

    async def _send_pack_async(self, operation: Operation, pack: Pack) -> None:
        if not pack.sent:
            self._check_turn(pack)
            self._begins(pack, operation)
            await self._send_dead_letters(pack)
            if pack.left:
                rows = self._rows(pack)
                handed = listed(rows)
                try:
                    await self._handler.bound(self._context(pack, operation, handed))(rows)
                except _FAILURES as error:
                    if _is_cancelled():
                        raise
                    self._judge(pack, handed, operation.attempt, error)
                finally:
                    self._note_settled(pack)
                if pack.is_divided:
                    return
                await self._send_dead_letters(pack)
            pack.sent = True
            self._busy[id(pack)] = math.inf
        if (written := self._written(pack.units)) is not None:
            await asyncio.wrap_future(written)
        self._ended(pack)

    def _rows(self, pack: Pack) -> Rows:
        """Return the rows for one call of the handler. Each attempt receives them as they came."""
        units = pack.left
        if all(unit.rows is not None for unit in units):
            parts = [unit.rows for unit in units]
            for unit in units:
                unit.rows = None
            pack.lengths = [_length(part) for part in parts]
            return parts[0] if len(parts) == 1 else self._format.together(parts)
        records = [self._records(unit) for unit in units]
        if len(records) == 1:
            rows = self._format.of_records(records[0])
            pack.lengths = [_length(rows)]
            return rows
        pack.lengths = [one.num_rows for one in records]
        return self._format.of_records(_together(records))

    def _records(self, unit: Unit) -> pa.RecordBatch:
        """Return the records of `unit` that are still to be sent."""
        import pyarrow as pa

        records = self._format.records(unit.source.batch())
        return records if unit.records is None else records.take(pa.array(unit.records, pa.int64()))

    def _context(self, pack: Pack, operation: Operation, handed: list[Any]) -> Context | None:
        if not self._takes_context:
            return None
        context = context_of(self.micro_batch, pack.left, pack.lengths, operation.attempt)
        settlement = CallSettlement(operation, pack, handed, context.subjects, self._form)
        pack.settlement = settlement
        return settled_by(context, settlement.settle)

    def _note_settled(self, pack: Pack) -> None:
        """Add what the handler has settled in this call."""
        if pack.settlement is not None:
            self._sums.settle(pack.settlement.end())
            pack.settlement = None

    def _check_turn(self, pack: Pack) -> None:
        if not self.may_begin():
            # Redis does not respond. The Batcher takes the batch back and charges it again when it
            # starts, so that these batches and later ones are not sent on top of each other when
            # Redis responds.
            raise NotStarted
        if pack.previous is not None:
            if not pack.previous.acknowledged:
                raise BatchFailedError(
                    f"{self.micro_batch.named(pack)} cannot be sent: one before it failed"
                )
            pack.previous = None

    def _begins(self, pack: Pack, operation: Operation) -> None:
        now = self.begun_at = self._busy[id(pack)] = time.monotonic()
        self._sums.spend(pack.charge)
        if operation.attempt > 1:
            self._sums.add(retries=1)
            return
        pack.begun_at = now
        self._sums.add(longest_wait=now - pack.waiting_since)

    def _judge(self, pack: Pack, handed: list[Any], attempt: int, error: BaseException) -> None:
        """Raise `error` if the Batcher is to try again or to give up. A batch that is given up is
        marked for dead letters instead, if there are any: they take it now, before any later rows
        of its sequence. Of several subjects, only those whose rows the handler has named go there;
        if it has named none, each subject is tried by itself."""
        named = False
        if isinstance(error, PartialFailure):
            if not error.failed:
                return
            named, error = self._narrow(pack, handed, error)
        rule = FailureRule(error, self._policy)
        if rule.throttled:
            self._sums.add(throttled=1)
        if rule.delay(attempt, time.monotonic() - pack.begun_at) is not None:
            raise error
        if self.dead_letters is None:
            # Noted here, before the Batcher raises what comes after it.
            self._fail(pack, attempt, error)
            raise error
        left = pack.left
        if not named and len(left) > 1:
            self.divide(pack)
            return
        for unit in left:
            unit.refused = f"{type(error).__name__}: {error}"

    def _narrow(
        self, pack: Pack, handed: list[Any], error: PartialFailure
    ) -> tuple[bool, BaseException]:
        """Keep only the failed rows of `pack`, if `error` names rows of it. Return whether it does,
        and why they failed, or what is wrong with `error`."""
        try:
            failed = places_of(handed, error.failed)
        except KeyError:
            return False, RowsFailedError(
                "PartialFailure must name rows of this batch, the very objects that the handler "
                'was given, or their numbers with rows="arrow"; the whole batch counts as failed'
            )
        end = 0
        for unit, length in zip(pack.left, pack.lengths, strict=True):
            begin, end = end, end + length
            before = unit.records or range(length)
            mine = failed[bisect_left(failed, begin) : bisect_left(failed, end)]
            unit.records = [before[place - begin] for place in mine]
        cause = error.cause or RowsFailedError(f"{len(failed)} of {len(handed)} rows failed")
        return True, cause

    def _written(self, units: list[Unit]) -> Future[None] | None:
        if self.sender is None:
            return None
        # Of several units of one sequence the last one has the entry that is stored.
        entries = {unit.sequence: unit.entry for unit in units}
        for unit in units:
            entries |= unit.of_subjects
        return self.sender.acknowledge(entries)

    def _ended(self, pack: Pack) -> None:
        numbers: Counter[str] = Counter()
        for unit in pack.units:
            unit.acknowledged = True
            sent = 0 if unit.refused else unit.size
            if unit.refused and unit.records is not None:
                sent = max(0, unit.size - len(unit.records))
            numbers["sent_rows"] += sent
            numbers["rejected_rows"] += unit.size - sent
            numbers["late_rows"] += unit.size * unit.late
        if numbers["sent_rows"]:
            # One is divided by the other later, so both are added here: packs that were divided,
            # and those of which all rows were rejected, count for neither.
            self._sums.add(batches=1, waited=pack.begun_at - pack.waiting_since)
        self._sums.add(**numbers)

    def _send_dead_letters_now(self, pack: Pack) -> None:
        for unit in self._dead(pack):
            if (waiting := self._take(unit)) is not None:
                asyncio.run(_awaited(waiting))
            unit.in_dead_letters = True

    async def _send_dead_letters(self, pack: Pack) -> None:
        for unit in self._dead(pack):
            if (waiting := await asyncio.to_thread(self._take, unit)) is not None:
                await waiting
            unit.in_dead_letters = True

    @staticmethod
    def _dead(pack: Pack) -> list[Unit]:
        return [unit for unit in pack.units if unit.refused and not unit.in_dead_letters]

    def _take(self, unit: Unit) -> Awaitable[object] | None:
        """Give `unit` to dead letters."""
        assert self.dead_letters is not None
        records = self._records(unit)
        context = context_of(self.micro_batch, [unit], [records.num_rows], 0, unit.refused)
        return self.dead_letters.take(records, context)

    def _give_up(self, operations: list[Operation], error: BaseException) -> None:
        """Fail the task, since a batch has failed for good and there are no dead letters."""
        (operation,) = operations
        pack: Pack = operation.payload
        if isinstance(error, TooExpensiveError) and len(pack.left) > 1:
            self.divide(pack)  # the limit was lowered while it waited
            return
        self._fail(pack, operation.attempt, error)

    def abandoned(self, error: object) -> None:
        """Fail the task, since a handler does not return and it is unknown whether its batch is
        sent."""
        if self.sender is not None:
            self.sender.linger()
        if self.failed is None:
            self.failed = BatchFailedError(
                f"a handler has not returned in {self.micro_batch}: {error}. Its batch is sent "
                "again with the micro-batch; let the handler give up sooner, or give the sink a "
                "longer max_operation_time"
            )

    def _fail(self, pack: Pack, attempts: int, error: BaseException) -> None:
        if self.failed is not None:
            return
        if isinstance(error, SparkSinkError):
            self.failed = error
            return
        self.failed = BatchFailedError(
            f"{self.micro_batch.named(pack)} failed for good after {attempts} "
            f"attempt{'s' * (attempts != 1)}: {error!r}. Its rows are sent again with the "
            "micro-batch; retry= has the sink try such batches again, and with dead_letters= the "
            "query goes on without their rows"
        )
        self.failed.__cause__ = error


def _length(rows: Rows) -> int:
    return len(rows) if isinstance(rows, list) else int(rows.num_rows)


def _together(records: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    (batch,) = pa.Table.from_batches(records).combine_chunks().to_batches()
    return batch


def _is_cancelled() -> bool:
    """Whether the task that runs a handler is cancelled, rather than something in the handler."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _awaited(waiting: Awaitable[object]) -> None:
    await waiting
