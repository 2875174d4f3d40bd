"""A Batch: operations raised together, from the moment the planner cuts them until they end."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from dispatcher._core.queues.settlement import (
    BatchSettlement,
    end_of_callback,
    settle_one,
    settle_whole,
)
from dispatcher._core.queues.stages import BatchState
from dispatcher.operation import Operation
from limiters._budgets.spend import Spend
from limiters._costs import AnyCost
from limiters.errors import SettlementError

if TYPE_CHECKING:
    from dispatcher._core.cost_terms import CostTerms
    from dispatcher._core.queues.buffer import Buffer
    from dispatcher._core.queues.lane import Lane, Line


class OperationBatch:
    """The record of one batch. Owned by the engine; `requeued` is shared with its callback."""

    __slots__ = (
        "batch_cost",
        "buffer",
        "cost",
        "costs",
        "deadline",
        "full",
        "handed",
        "has_returned",
        "lane",
        "lines",
        "operations",
        "raised_at",
        "requeued",
        "returned_at",
        "sequence",
        "settlement",
        "spend",
        "state",
    )

    costs: CostTerms
    """How its costs are added up; set when it is raised."""

    def __init__(self, lane: Lane, sequence: int, full: float = 1) -> None:
        self.lane = lane
        self.full = full
        """How many operations it holds at most."""
        self.sequence = sequence
        """The ticket of its oldest operation. Operations that are retried go back to that place."""
        self.operations: list[Operation] = []
        self.handed: list[Operation] | None = None
        """The list of operations that its callback has received."""
        self.lines: list[Line] = []
        """The lines of the keys that it holds."""
        self.cost: AnyCost = 0
        """The cost of its operations."""
        self.batch_cost = lane.batch_cost
        """The cost of the batch itself. That of its lane may change while the batch runs."""
        self.spend: Spend | None = None
        self.settlement: BatchSettlement | None = None
        """The actual cost, once its callback has settled anything."""
        self.buffer: Buffer | None = None
        """The buffer of the Batcher that has raised it."""
        self.raised_at = 0.0
        self.has_returned = False
        """Whether its callback has ended, so that it can no longer be settled."""
        self.returned_at = 0.0
        """When its callback ended, by the clock of the thread that ran it."""
        self.deadline = 0.0
        self.state = BatchState.IN_FLIGHT
        self.requeued: dict[int, Operation] = {}
        """Operations that the callback enqueued again, by identity; accepted when the batch
        ends."""

    @property
    def whole_cost(self) -> AnyCost:
        """The cost of its operations and of the batch itself."""
        return self.batch_cost + self.cost

    @property
    def over(self) -> bool:
        """Whether its operations may be enqueued again like any others."""
        return self.state in (BatchState.ENDED, BatchState.ABANDONED)

    @property
    def ending(self) -> bool:
        """Whether the engine is ending it: operations that its callback enqueues now come too
        late."""
        return self.state is BatchState.ENDING

    def may_begin(self) -> bool:
        """Whether its callback may be called: not after it was abandoned. Thread-safe."""
        return self.state is BatchState.IN_FLIGHT

    def settle_one(self, operation: Operation, actual: object, *, own: bool = False) -> None:
        """Note, for its callback, that `operation`, which was raised in it, costs `actual`. `own`:
        whether it is known that the caller belongs to this attempt."""
        own = self.check_runs() or own or not operation._attempts
        settle_one(self, operation, actual, own=own)

    def settle_whole(self, operations: list[Operation], actual: object) -> None:
        """Note, for its callback, that `operations`, which have to be all of its own, cost
        `actual`."""
        own = self.check_runs()
        if operations is not self.handed:
            if set(map(id, operations)) != set(map(id, self.operations)):
                raise SettlementError(
                    f"these {len(operations)} operations are not the batch of "
                    f"{len(self.operations)} in which the first one was raised; pass that batch, "
                    "or settle each operation by itself"
                )
            if not own and any(one._attempts for one in operations):
                raise SettlementError(
                    "it is not known which attempt of these operations has cost that: outside of "
                    "the callback's own thread or task, pass the list that the callback of this "
                    "attempt received"
                )
        settle_whole(self, actual)

    def check_runs(self, *, closed: bool = False) -> bool:
        """Return whether the caller is its callback: in another thread, that is not known. Raise
        SettlementError unless its callback runs, or if the caller is another one."""
        if self.buffer is not None and self.buffer.left_behind:
            raise SettlementError(
                "this process was forked after the callback began; settle it in the parent "
                "process, where it is charged"
            )
        if closed or self.state is not BatchState.IN_FLIGHT:
            if self.state is not BatchState.ABANDONED:
                raise SettlementError("the batch has ended; settle it before its callback returns")
            raise SettlementError(
                "the batch was abandoned, since it took too long: it counts for what was charged"
            )
        current = CURRENT.get()
        if current is not None and current is not self:
            raise SettlementError(
                "the operation is in another batch than this callback's; each attempt is settled "
                "in its own callback"
            )
        return current is not None

    def callback_ended(self, now: float, error: BaseException | None) -> None:
        """Note that the callback returned, or raised `error`. Called by the thread that ran it."""
        self.returned_at = now
        end_of_callback(self, error)
        if self.spend is not None:
            self.spend.ended(now)

    def forget(self) -> None:
        """Let go of its operations, which still refer to it: no cycle is left to collect."""
        self.operations = []
        self.handed = None
        self.requeued = {}
        self.settlement = None


CURRENT: ContextVar[object] = ContextVar("dispatcher_current_batch", default=None)
"""The OperationBatch, or the hand-over of failed operations, whose callback this code runs in."""
