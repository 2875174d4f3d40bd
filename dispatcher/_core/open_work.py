"""The only owner of the state of accepted operations, in a form that any thread may read.

A transition is one call. It changes the counts, the lane's share of them, the mark on each
operation and the totals together; it raises before anything has changed if `stages` does not allow
it. Two things are done elsewhere: `Lane` keeps the order within a lane, and `InboxReader` takes
each operation from the inbox to its ticket, at the speed that this needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher._core.audit import AuditedCosts, Finding, audit
from dispatcher._core.changing import Changing
from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.lane import Lane
from dispatcher._core.queues.settlement import BatchSettlement
from dispatcher._core.queues.stages import BatchState, Stage, check, check_batch
from dispatcher.events import AUDIT_FAIL
from dispatcher.operation import Operation, cost_of
from limiters._costs import AnyCost

NEWEST = 0.2
"""Weight of the last callback in the recent duration of callbacks."""


@dataclass
class BatcherTotals:
    """Counts of operations and batches since the start, by how they ended."""

    done: int = 0
    failed: int = 0
    abandoned: int = 0
    returned: int = 0
    """Operations that stop() gave back."""
    retried: int = 0
    batches: int = 0
    batches_done: int = 0
    batches_failed: int = 0
    batches_abandoned: int = 0
    late: int = 0
    """Results of abandoned batches, which no longer count."""
    throttled: int = 0
    """Refusals of the datastore, as callbacks reported them."""
    pauses: int = 0

    def published(self) -> dict[str, float]:
        """Return the totals, by the names under which a limiter publishes them."""
        return {
            "operations_done": self.done,
            "operations_failed": self.failed,
            "operations_abandoned": self.abandoned,
            "operations_returned": self.returned,
            "batches_done": self.batches_done,
            "batches_failed": self.batches_failed,
            "batches_abandoned": self.batches_abandoned,
            "throttled": self.throttled,
            "retries": self.retried,
            "pauses": self.pauses,
        }


class OpenWork:
    """Law B3: `target` is always the cost of all operations that are accepted and have not ended.

    Law B2: each accepted operation ends exactly once, as done, failed, abandoned or given back.
    Only the engine writes. Operations that came in and were not taken in yet still stand in the
    buffer's inbox. Both are read at a moment at which the engine changes neither, so that a reader
    takes no lock.
    """

    def __init__(self, buffer: Buffer, nothing: AnyCost = 0) -> None:
        """`nothing` is a cost of zero, in the form of the limiter."""
        self._buffer = buffer
        self._nothing = nothing
        self.changing = Changing()
        """Marks changes in more than one step, or together with the inbox."""
        self.target = nothing
        self.waiting = 0
        """Operations accepted and not in flight, including those that rest before a retry."""
        self.inflight: set[OperationBatch] = set()
        self.totals = BatcherTotals()
        self.first_raised: dict[int, float] = {}
        """The times at which operations that are retried were first raised, by identity."""
        self._settled: tuple[AnyCost, AnyCost] | None = None
        """The estimated and the actual costs of the batches that were settled since the last audit;
        None if there were none."""
        self.callback_seconds: float | None = None
        """The recent duration of callbacks; None until one has ended."""

    def took(self, seconds: float) -> None:
        """Note the duration of a callback."""
        if self.callback_seconds is None:
            self.callback_seconds = seconds
        else:
            self.callback_seconds += (seconds - self.callback_seconds) * NEWEST

    def note_settled(self, settlement: BatchSettlement) -> None:
        """Note a batch that was settled and has ended, for the next audit."""
        estimated, actual = self._settled or (self._nothing, self._nothing)
        self._settled = estimated + settlement.estimated, actual + settlement.actual

    def take_settled(self) -> AuditedCosts | None:
        """Return the batches that were settled since this was called last; None if there were
        none."""
        settled, self._settled = self._settled, None
        return settled and AuditedCosts(*settled)

    def read(self) -> tuple[AnyCost, int, int]:
        """Return the target, the number of batches in flight and that of waiting operations."""
        return self.changing.look(self._read)

    def _read(self) -> tuple[AnyCost, int, int]:
        cost, count = self._buffer.arrived()
        return self.target + cost, len(self.inflight), self.waiting + count

    # Transitions, for the engine's thread only.

    def accepted(self, cost: AnyCost, count: int) -> None:
        """Note that `count` operations are WAITING. The caller has begun the change."""
        self.target += cost
        self.waiting += count

    def move(
        self, operations: list[Operation], source: Stage, target: Stage, lane: Lane | None = None
    ) -> None:
        """Move `operations`, which are all at `source` and of `lane`, to `target`. WAITING
        operations without a lane are `unplaced`, and can only be returned."""
        check(source, target)
        count = len(operations)
        cost = cost_of(operations) if source.counts.open != target.counts.open else 0
        with self.changing:
            self.waiting += count * (target.counts.waiting - source.counts.waiting)
            self._reduce(cost)
        if lane is not None:
            lane.away += count * (target.counts.away - source.counts.away)
        if not target.counts.open:
            self._count_ended(target, count)
            if source.counts.open:
                self._let_go(operations)
            if source.counts.waiting:
                self._buffer.leave(count)

    def start(self, batch: OperationBatch) -> None:
        """Note that the operations of `batch` are IN_FLIGHT. `leave_buffer` frees their places,
        once for all batches of a plan."""
        check(Stage.WAITING, Stage.IN_FLIGHT)
        batch.buffer = self._buffer
        for operation in batch.operations:
            operation._where = batch
        batch.lane.away += len(batch.operations)
        with self.changing:
            self.inflight.add(batch)
            self.waiting -= len(batch.operations)

    def leave_buffer(self, count: int) -> None:
        """Free the places of `count` operations that were started."""
        self._buffer.leave(count)

    def take_back(self, batch: OperationBatch) -> None:
        """Note that `batch` could not start: its operations are RESTING, as if never raised."""
        check_batch(batch.state, BatchState.ENDED)
        for operation in batch.operations:
            operation._where = batch.sequence
        self._end(batch, BatchState.ENDED, 0, back=len(batch.operations))
        self._buffer.come_back(len(batch.operations))

    def ending(self, batch: OperationBatch) -> None:
        """Note that `batch` is ending: its callback can enqueue nothing more through it."""
        check_batch(batch.state, BatchState.ENDING)
        batch.state = BatchState.ENDING

    def end(
        self,
        batch: OperationBatch,
        state: BatchState,
        *,
        back: list[Operation],
        failed: list[Operation],
        others: Stage,
    ) -> None:
        """Note that `batch` is over: `back` are RESTING, `failed` FAILED, all others at
        `others`."""
        check_batch(batch.state, state)
        check(Stage.IN_FLIGHT, others)
        for operation in back:
            self.first_raised.setdefault(id(operation), batch.raised_at)
            operation._attempts += 1
            operation._where = batch.sequence
        ended = len(batch.operations) - len(back)
        self._end(batch, state, batch.cost - cost_of(back), back=len(back))
        batch.lane.away -= ended - len(failed)
        self.totals.retried += len(back)
        self._count_ended(Stage.FAILED, len(failed))
        self._count_ended(others, ended - len(failed))
        if back:
            self._buffer.come_back(len(back))
        if self.first_raised and ended:
            again = set(map(id, back))
            for operation in batch.operations:
                if id(operation) not in again:
                    self.first_raised.pop(id(operation), None)

    def _end(self, batch: OperationBatch, state: BatchState, cost: AnyCost, back: int) -> None:
        with self.changing:
            batch.state = state
            self.inflight.discard(batch)
            self.waiting += back
            self._reduce(cost)

    def _let_go(self, operations: list[Operation]) -> None:
        for operation in operations:
            operation._where = None
            self.first_raised.pop(id(operation), None)

    def _count_ended(self, stage: Stage, count: int) -> None:
        totals = self.totals
        if stage is Stage.DONE:
            totals.done += count
        elif stage is Stage.FAILED:
            totals.failed += count
        elif stage is Stage.ABANDONED:
            totals.abandoned += count
        elif stage is Stage.RETURNED:
            totals.returned += count

    def audit(self, *, busy: bool) -> Finding:
        """Compare the target with the cost of the open batches while nothing waits, and correct
        it."""
        with self.changing:
            counted = self._nothing + sum(batch.cost for batch in self.inflight)
            finding = audit(self.target, counted, busy=busy)
            if finding.event == AUDIT_FAIL:
                self.target = counted
            return finding

    def _reduce(self, cost: AnyCost) -> None:
        self.target -= cost
        # Sums of fractions leave a float error.
        if not self.waiting and not self.inflight:
            self.target = self._nothing
