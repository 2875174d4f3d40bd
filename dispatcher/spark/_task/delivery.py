"""How one batch is delivered: to the handler or to dead letters, and then acknowledged.

A batch of several subjects that has failed for good as a whole is divided: whichever of them it was
that the handler could not take, the others are sent. The task does that, since a callback must not
wait for room in its own Batcher.
"""

from __future__ import annotations

import asyncio
import queue
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from dispatcher._failure_rule import FailureRule
from dispatcher._handler import load
from dispatcher._not_started import NotStarted
from dispatcher._retry import RetryPolicy
from dispatcher.errors import TooExpensiveError
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

if TYPE_CHECKING:
    import pyarrow as pa


_FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""What a handler may raise. A program that ends itself, or a task of the handler's that was
cancelled, ends a batch and nothing else."""


class Delivery:
    """The callbacks of a task's Batcher. Each operation is one Pack.

    Of a sequence, none begins unless the one before it was acknowledged: what is remembered is
    how many of a sequence's rows were, so that none may be left out in between.
    """

    def __init__(
        self, sending: DeliveryOptions, micro_batch: MicroBatchId, rows: Format, sums: Sums
    ) -> None:
        handler = load(sending.handler)  # before anything is sent, and without any row
        self._handler = MeasuredHandler(handler, sums)
        self._takes_context = handler.takes_context
        self.dead_letters = dead_letters_of(sending.dead_letters)
        self._policy = RetryPolicy.of(sending.retry, sending.max_attempts)
        self.micro_batch = micro_batch
        self._format = rows
        self._sums = sums
        prices = prices_of(sending)
        self._batch_cost, self._form = prices.of_batch, prices.form
        self._learned = prices.learned
        self._is_limited = sending.limiter is not None
        self.sender: Sender | None = None
        self.divided: queue.SimpleQueue[Pack] = queue.SimpleQueue()
        """Packs whose subjects are to be sent one by one."""
        self.failed: SparkSinkError | None = None
        """Why the task fails."""
        self.begun_at = time.monotonic()
        """When a batch began last, or the task."""

    def watcher(self, sending: DeliveryOptions) -> Watcher:
        """Whose callbacks these are."""
        return Watcher(
            self._callback(),
            retry=sending.retry,
            max_attempts=sending.max_attempts,
            on_failure=self._give_up,
        )

    def _callback(self) -> OnBatch:
        """What sends a batch, under the name of the handler: log lines of a Batcher have it, and
        ours says nothing to users."""

        def send(operations: list[Operation]) -> None:
            self._send(operations)

        async def send_async(operations: list[Operation]) -> None:
            await self._send_async(operations)

        callback: OnBatch = send_async if self._handler.is_async else send
        callback.__qualname__ = self._handler.name
        return callback

    def operation(self, watcher: Watcher, pack: Pack) -> Operation:
        """What has `pack` sent: a batch by itself, so its cost has that of a batch in it, unless
        no handler is to take it. Without a limit there is nothing that a cost is charged to."""
        pack.factors = self._learned.factors()
        pack.charge = scaled(pack.cost, pack.factors) + self._batch_cost if pack.left else 0
        charge: Any = pack.charge if self._is_limited else 0
        if charge and pack.factors:
            rows = sum(
                unit.size if unit.records is None else len(unit.records) for unit in pack.left
            )
            charge = PackCost(charge, self._learned, self._batch_cost, rows)
        return Operation(watcher, charge, pack, key=pack.key)

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
        if (written := self._written([unit])) is not None:
            written.result()
        unit.acknowledged = True
        self._sums.add(held_rows=unit.size, late_rows=unit.size * unit.late)

    def divide(self, pack: Pack) -> None:
        """From now on the subjects of `pack` are sent one by one, in each replay as well."""
        pack.is_divided = True
        self.divided.put(pack)

    def _send(self, operations: list[Operation]) -> None:
        (operation,) = operations
        pack: Pack = operation.payload
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
                if pack.is_divided:
                    return
                self._send_dead_letters_now(pack)
            pack.sent = True
        if (written := self._written(pack.units)) is not None:
            written.result()
        self._ended(pack)

    async def _send_async(self, operations: list[Operation]) -> None:
        (operation,) = operations
        pack: Pack = operation.payload
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
                if pack.is_divided:
                    return
                await self._send_dead_letters(pack)
            pack.sent = True
        if (written := self._written(pack.units)) is not None:
            await asyncio.wrap_future(written)
        self._ended(pack)

    def _rows(self, pack: Pack) -> Rows:
        """What is handed to the handler: at each attempt the rows as they came."""
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
        """What is left to be sent of `unit`."""
        import pyarrow as pa

        records = self._format.records(unit.source.batch())
        return records if unit.records is None else records.take(pa.array(unit.records, pa.int64()))

    def _context(self, pack: Pack, operation: Operation, handed: list[Any]) -> Context | None:
        if not self._takes_context:
            return None
        context = context_of(self.micro_batch, pack.left, pack.lengths, operation.attempt)
        settlement = CallSettlement(operation, pack, handed, context.subjects, self._form)
        return settled_by(context, settlement.settle)

    def _check_turn(self, pack: Pack) -> None:
        if not self.may_begin():
            # While Redis is away. The Batcher takes it back, and charges it anew: what was charged
            # by then is not sent beside what is charged when Redis is there again.
            raise NotStarted
        if pack.previous is not None:
            if not pack.previous.acknowledged:
                raise BatchFailedError(
                    f"{self.micro_batch.named(pack)} waits for one that has failed"
                )
            pack.previous = None

    def _begins(self, pack: Pack, operation: Operation) -> None:
        now = self.begun_at = time.monotonic()
        self._sums.spend(pack.charge)
        if operation.attempt > 1:
            self._sums.add(retries=1)
            return
        pack.begun_at = now
        self._sums.add(longest_wait=now - pack.waiting_since)

    def _judge(self, pack: Pack, handed: list[Any], attempt: int, error: BaseException) -> None:
        """Raises `error`, for the Batcher to try again or to give up; but what is given up and
        has a target for dead letters goes there now, before anything later of its sequence. Of
        several subjects only those go there whose rows the handler has named; if it has named
        none, each is tried by itself."""
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
        """Leaves of `pack` only what has failed, if `error` names rows of it; whether it does, and
        why they failed or what is wrong with `error`."""
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
        # Of several units of one sequence the last one says what was acknowledged.
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
            # Together, since the one is divided by the other: packs that were divided, and those
            # of which all was rejected, count for neither.
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
        """Gives `unit` to dead letters."""
        assert self.dead_letters is not None
        records = self._records(unit)
        context = context_of(self.micro_batch, [unit], [records.num_rows], 0, unit.refused)
        return self.dead_letters.take(records, context)

    def _give_up(self, operations: list[Operation], error: BaseException) -> None:
        """What failed for good, and has nowhere to go: the task fails."""
        (operation,) = operations
        pack: Pack = operation.payload
        if isinstance(error, TooExpensiveError) and len(pack.left) > 1:
            self.divide(pack)  # the limit was lowered while it waited
            return
        self._fail(pack, operation.attempt, error)

    def abandoned(self, error: object) -> None:
        """A handler does not return: nobody knows what becomes of its batch."""
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
            f"{self.micro_batch.named(pack)} failed for good after {attempts} attempts: {error!r}"
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
