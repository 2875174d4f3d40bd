"""The end of a batch: its operations are done, are raised again later, or have failed; the batch
may also be abandoned.

Owned by the engine; nothing here is thread-safe.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Set

from dispatcher import events
from dispatcher._core.batches.end_rules import BatchVerdict, judge
from dispatcher._core.batches.executors import NO_THREAD_DELAY
from dispatcher._core.batches.failure_callbacks import HandingOver
from dispatcher._core.batches.failure_log import FailureLog
from dispatcher._core.environment import Environment
from dispatcher._core.open_work import OpenWork
from dispatcher._core.pausing import Pausing
from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.lane import Lane, line_of
from dispatcher._core.queues.lanes import Lanes
from dispatcher._core.queues.stages import BatchState, Stage
from dispatcher._not_started import NotStarted
from dispatcher.errors import BatchAbandonedError
from dispatcher.operation import Operation, ticket_of
from limiters._support.validation import in_seconds


class _Rest:
    """Operations of a failed batch that wait for their retry delay. Their keys stay held."""

    __slots__ = ("due", "lane", "operations", "tie")
    _ties = itertools.count()

    def __init__(self, due: float, lane: Lane, operations: list[Operation]) -> None:
        self.due = due
        self.lane = lane
        self.operations = operations
        self.tie = next(self._ties)

    def __lt__(self, other: _Rest) -> bool:
        return (self.due, self.tie) < (other.due, other.tie)


class BatchEnd:
    """Handles the results of callbacks, retry delays, and callbacks that take too long."""

    def __init__(
        self,
        open_work: OpenWork,
        lanes: Lanes,
        pausing: Pausing,
        environment: Environment,
    ) -> None:
        self._open_work = open_work
        self._lanes = lanes
        self._pausing = pausing
        self._runners = environment.runners
        self._emit = environment.emit
        self._post = environment.mailbox.post
        self._clock = environment.clock
        self._observed = environment.observed
        self._max_operation_time = in_seconds(environment.options.max_operation_time)
        self._failure_log = FailureLog()
        self._resting: list[_Rest] = []
        self._abandoned: dict[OperationBatch, list[Operation]] = {}
        self._handing_over = HandingOver(
            open_work, lanes, environment, time_for=self._time_for, failure_log=self._failure_log
        )
        self._next_deadline = math.inf
        self.given_back: list[Operation] | None = None
        """The list of operations that stop() gives back. None until the Batcher is stopping."""

    def runs(self, inside: object) -> bool:
        """Whether `inside`, a value of CURRENT, is a callback that has not ended."""
        return inside in self._handing_over or inside in self._open_work.inflight

    @property
    def abandoned(self) -> Set[OperationBatch]:
        """The batches that were abandoned and whose callbacks have not returned."""
        return self._abandoned.keys()

    @property
    def pending(self) -> bool:
        """Whether failed operations have not been through their failure callback yet."""
        return self._handing_over.pending

    def deadline_of(self, batch: OperationBatch, now: float) -> None:
        """Note when `batch`, which is raised now, is to be abandoned."""
        batch.deadline = now + self._time_for(batch.lane)
        self._next_deadline = min(self._next_deadline, batch.deadline)

    def next_look(self, now: float) -> float:
        """Return the time at which `run_due` has something to do."""
        rested = self._resting[0].due if self._resting else math.inf
        return min(rested, self._handing_over.next_look(now), self._next_deadline)

    def run_due(self, now: float) -> None:
        """Return rested operations to their lanes, and abandon batches that take too long."""
        while self._resting and self._resting[0].due <= now:
            rest = heapq.heappop(self._resting)
            self._put_back(rest.lane, rest.operations)
        if now >= self._next_deadline:
            self._check_deadlines(now)
        self._handing_over.run_due(now)

    def callback_ended(self, batch: OperationBatch, error: BaseException | None) -> None:
        """Post the result of `batch` to the engine. Called by the thread that ran the callback."""
        try:
            batch.callback_ended(self._clock(), error)  # first: what it frees is free in that turn
        finally:
            self._post(self.settle, batch, error)

    def settle(self, now: float, batch: OperationBatch, error: BaseException | None) -> None:
        """Handle the result of `batch`: its callback returned, or raised `error`."""
        self._runners.ended(on_loop=batch.lane.on_loop)
        if batch.state is BatchState.ABANDONED:
            self._settle_late(batch, began=not isinstance(error, NotStarted))
        elif isinstance(error, NotStarted):
            self._open_work.totals.batches -= 1
            self.not_started(now, batch)
            return
        else:
            self._open_work.ending(batch)
            verdict = judge(batch, error, now, self._open_work.first_raised)
            if error is None:
                self._open_work.totals.batches_done += 1
                self._pausing.succeeded(batch.raised_at)
            else:
                self._report(now, batch, verdict)
            if verdict.throttled:
                self._open_work.totals.throttled += 1
                self._pausing.begin(now, verdict.pause)
            back = self._conclude(now, batch, BatchState.ENDED, verdict, Stage.DONE)
            self._free_keys(batch, held_by=back)
            self._rest(now + verdict.delay, batch.lane, back)
        seconds = max(0.0, batch.returned_at - batch.raised_at)
        self._open_work.took(seconds)
        if batch.settlement is not None:
            self._open_work.note_settled(batch.settlement)
        if self._observed.observers:
            self._observed.returned(batch, seconds)
        batch.forget()
        self._lanes.forget_if_idle(batch.lane)

    def not_started(self, now: float, batch: OperationBatch) -> None:
        """Let the operations of `batch`, which could not be run, rest. It counts as never
        raised."""
        if batch.spend is not None:
            batch.spend.cancel()
        self._open_work.take_back(batch)
        self._rest(now + NO_THREAD_DELAY, batch.lane, batch.operations)
        batch.forget()

    def fail(self, now: float, lane: Lane, operations: list[Operation], error: Exception) -> None:
        """Fail operations that were taken out of `lane` without being raised."""
        self._open_work.move(operations, Stage.WAITING, Stage.FAILED, lane)
        self._failure_log.refused(now, lane.terms, error, operations)
        self._handing_over.hand_over(now, lane, operations, error)

    def give_back(self, unplaced: Iterable[Operation] = ()) -> list[Operation]:
        """Return all operations that are not in flight, oldest first: those that wait, and
        `unplaced`, which have no lane. Operations that would wait later are added to the same
        list."""
        if self.given_back is None:
            self.given_back = []
        moves: list[tuple[Lane | None, list[Operation], Stage]]
        moves = [(None, list(unplaced), Stage.WAITING)]
        moves += [(lane, self._lanes.withdraw(lane), Stage.WAITING) for lane in self._lanes]
        moves += [(rest.lane, rest.operations, Stage.RESTING) for rest in self._resting]
        moves += [(batch.lane, held, Stage.RESTING) for batch, held in self._abandoned.items()]
        self._abandoned = {batch: [] for batch in self._abandoned}
        self._resting.clear()
        self.given_back += sorted((one for _, given, _ in moves for one in given), key=ticket_of)
        for lane, given, stage in moves:
            self._open_work.move(given, stage, Stage.RETURNED, lane)
        return self.given_back

    # One batch.

    def _conclude(
        self,
        now: float,
        batch: OperationBatch,
        state: BatchState,
        verdict: BatchVerdict,
        others: Stage,
    ) -> list[Operation]:
        """End the operations that are over; those that have not failed end at `others`. Return the
        operations that are to be raised again, in their order."""
        again = set(map(id, verdict.again + verdict.requeued))
        back = [one for one in batch.operations if id(one) in again] if again else []
        self._open_work.end(batch, state, back=back, failed=verdict.failed, others=others)
        if verdict.failed:
            assert verdict.error is not None
            self._handing_over.hand_over(now, batch.lane, verdict.failed, verdict.error)
        return back

    def _free_keys(self, batch: OperationBatch, held_by: list[Operation]) -> None:
        if batch.lines:
            kept = set(map(line_of, held_by))
            batch.lane.release(line for line in batch.lines if line not in kept)
            self._lanes.queue(batch.lane)

    def _rest(self, due: float, lane: Lane, operations: list[Operation]) -> None:
        if not operations:
            return
        if self.given_back is not None:
            self._open_work.move(operations, Stage.RESTING, Stage.RETURNED, lane)
            self.given_back += operations
        else:
            heapq.heappush(self._resting, _Rest(due, lane, operations))

    def _put_back(self, lane: Lane, operations: list[Operation]) -> None:
        self._open_work.move(operations, Stage.RESTING, Stage.WAITING, lane)
        self._lanes.put_back(lane, operations)

    def _report(self, now: float, batch: OperationBatch, verdict: BatchVerdict) -> None:
        error = verdict.error
        failed, again = len(verdict.failed), len(verdict.again)
        self._open_work.totals.batches_failed += 1
        terms = batch.lane.terms
        fate = terms.fate_of(len(batch.operations), again, failed)
        text = f"{terms.described(batch.operations)} failed: {verdict.shown_error}; {fate}"
        if not verdict.logged:
            self._failure_log.batch_failed(
                now,
                terms.name,
                error,
                text,
                operations=len(batch.operations),
                again=again,
                failed=failed,
                expected=verdict.expected,
            )
        self._emit(events.BATCH_FAILED, failed + again, text, error)

    # Batches that take too long.

    def _check_deadlines(self, now: float) -> None:
        for batch in [one for one in self._open_work.inflight if one.deadline <= now]:
            self._abandon(now, batch)
        deadlines = (one.deadline for one in self._open_work.inflight)
        self._next_deadline = min(deadlines, default=math.inf)

    def _abandon(self, now: float, batch: OperationBatch) -> None:
        self._open_work.ending(batch)
        self._open_work.totals.batches_abandoned += 1
        if batch.spend is not None:
            batch.spend.abandoned(now)
        terms = batch.lane.terms
        error = BatchAbandonedError(self._time_for(batch.lane))
        others = Stage.DONE if terms.retry_abandoned else Stage.ABANDONED
        if terms.retry_abandoned:
            verdict = judge(batch, error, now, self._open_work.first_raised)
        else:
            verdict = BatchVerdict(requeued=list(batch.requeued.values()), error=error)
        self._failure_log.batch_abandoned(now, terms, error, batch.operations)
        self._emit(events.BATCH_ABANDONED, len(batch.operations), str(error), error)
        back = self._conclude(now, batch, BatchState.ABANDONED, verdict, others)
        # Operations with a key wait for the callback to return, since it holds the key until then.
        held = [operation for operation in back if line_of(operation) is not None]
        free = [operation for operation in back if line_of(operation) is None]
        self._abandoned[batch] = []
        if self.given_back is None:
            self._abandoned[batch] = held
        else:
            self._rest(now, batch.lane, held)
        self._rest(now + verdict.delay, batch.lane, free)

    def _settle_late(self, batch: OperationBatch, *, began: bool) -> None:
        if began:
            self._open_work.totals.late += 1
        held = self._abandoned.pop(batch)
        self._free_keys(batch, held_by=held)
        if held:
            self._put_back(batch.lane, held)

    def _time_for(self, lane: Lane) -> float:
        return lane.terms.max_operation_time or self._max_operation_time
