"""The engine's side of the buffer: takes operations in, numbers them, and sorts them into lanes."""

from __future__ import annotations

from dispatcher._core.open_work import OpenWork
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.chunk import ChunkRun
from dispatcher._core.queues.lane import Lane
from dispatcher._core.queues.lanes import Lanes
from dispatcher.errors import KeyComparisonError
from dispatcher.operation import Operation, cost_of, key_of, one_cost
from dispatcher.watcher import Watcher
from limiters._costs import AnyCost


class InboxReader:
    """Sorts operations into lanes. Owned by the engine. `limited`: there is a limiter, so that
    costs matter."""

    def __init__(self, buffer: Buffer, open_work: OpenWork, lanes: Lanes, *, limited: bool) -> None:
        self._buffer = buffer
        self._open_work = open_work
        self._lanes = lanes
        self._limited = limited
        self.newest = -1
        """The last ticket that was given."""
        self._unplaced: list[tuple[Lane, Operation, Exception]] = []
        """Operations that came in and whose key cannot be compared: they have no place in their
        lane."""

    def absorb(self) -> None:
        """Take in the operations that have come and for which there is room."""
        if not self._buffer.inbox and not self._buffer.line:
            return
        touched: dict[Lane, None] = {}
        ordered: list[Operation] = []
        cost: AnyCost = 0
        came = count = 0
        with self._open_work.changing:
            for run in self._buffer.take():
                came += len(run.operations)
                taken = self._ticketed(run)
                count += len(taken)
                cost += cost_of(taken)
                ordered += self._sort(taken, touched, plain=run.plain)
            self._open_work.accepted(cost, count)
        if came > count:
            self._buffer.leave(came - count)
        self._lanes.ready_cost += cost
        for operation in ordered:  # not inside the change: user code compares keys
            self._admit(operation, touched)
        for lane in touched:
            self._lanes.queue(lane)

    def take_unplaced(self) -> list[tuple[Lane, Operation, Exception]]:
        """Take out the operations whose key cannot be compared, with their lanes and errors."""
        unplaced, self._unplaced = self._unplaced, []
        return unplaced

    def _ticketed(self, run: ChunkRun) -> list[Operation]:
        """Give tickets to the operations of `run` whose claim is valid, and return these: the
        engine owns them now."""
        claim = run.claim
        void = 0
        first = self.newest + 1
        for ticket, operation in enumerate(run.operations, first):
            if operation._where is claim:  # one step with the next line
                operation._where = ticket
            else:
                void += 1
        self.newest += len(run.operations)
        if not void:
            return run.operations
        return [one for ticket, one in enumerate(run.operations, first) if one._where == ticket]

    def _sort(
        self, operations: list[Operation], touched: dict[Lane, None], *, plain: bool
    ) -> list[Operation]:
        """Put the operations into their lanes that only need a place at the end; return the
        others."""
        limited = self._limited
        if (
            plain
            and operations
            and (not limited or all(map(one_cost, operations)) or self._is_paid(operations[0]))
        ):
            assert operations[0]._watcher is not None
            lane = self._lanes.of(operations[0]._watcher)
            touched[lane] = None
            lane.plain.extend(operations)
            return []
        ordered: list[Operation] = []
        watcher: Watcher | None = None
        for operation in operations:
            if (
                operation._order is None
                and operation._batchable
                and (operation._cost or not limited or self._is_paid(operation))
            ):
                if operation._watcher is not watcher:
                    assert operation._watcher is not None
                    watcher = operation._watcher
                    lane = self._lanes.of(watcher)
                    touched[lane] = None
                    append = lane.plain.append
                append(operation)
            else:
                ordered.append(operation)
        return ordered

    @staticmethod
    def _is_paid(operation: Operation) -> bool:
        """Whether the batch of `operation` costs something even if no operation in it does."""
        assert operation._watcher is not None
        return bool(operation._watcher._terms.batch_cost)

    def _admit(self, operation: Operation, touched: dict[Lane, None]) -> None:
        assert operation._watcher is not None
        free = self._limited and not operation._cost and not self._is_paid(operation)
        # An operation with a key keeps its place behind others of its key, whatever those cost.
        free = free and key_of(operation) is None
        lane = self._lanes.of(operation._watcher, free=free)
        try:
            lane.admit(operation)
        except BaseException as raised:  # sys.exit() must not end a thread of the Batcher
            error = KeyComparisonError()
            error.__cause__ = raised
            self._lanes.ready_cost -= operation._cost
            self._unplaced.append((lane, operation, error))
        touched[lane] = None
