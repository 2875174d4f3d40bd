"""A Batch: operations raised together, from the moment the planner cuts them until they end."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from dispatcher._core.queues.stages import BatchState
from dispatcher.operation import Operation
from limiters._budgets.spend import Spend
from limiters._costs import AnyCost

if TYPE_CHECKING:
    from dispatcher._core.queues.lane import Lane, Line


class OperationBatch:
    """The record of one batch. Owned by the engine; `requeued` is shared with its callback."""

    __slots__ = (
        "buffer",
        "cost",
        "deadline",
        "full",
        "lane",
        "lines",
        "operations",
        "raised_at",
        "requeued",
        "returned_at",
        "sequence",
        "spend",
        "state",
    )

    def __init__(self, lane: Lane, sequence: int, full: float = 1) -> None:
        self.lane = lane
        self.full = full
        """How many operations it holds at most."""
        self.sequence = sequence
        """The ticket of its oldest operation: what is retried goes back to that place."""
        self.operations: list[Operation] = []
        self.lines: list[Line] = []
        """Of the keys that it holds."""
        self.cost: AnyCost = 0
        """Of its operations."""
        self.spend: Spend | None = None
        self.buffer: object = None
        """That of the Batcher which has raised it."""
        self.raised_at = 0.0
        self.returned_at = 0.0
        """When its callback ended, by the clock of the thread that ran it."""
        self.deadline = 0.0
        self.state = BatchState.IN_FLIGHT
        self.requeued: dict[int, Operation] = {}
        """Enqueued again by the callback, by identity; accepted when the batch ends."""

    @property
    def whole_cost(self) -> AnyCost:
        """Of its operations, and of the batch itself."""
        return self.lane.batch_cost + self.cost

    @property
    def over(self) -> bool:
        """Whether its operations may be enqueued again like any others."""
        return self.state in (BatchState.ENDED, BatchState.ABANDONED)

    @property
    def ending(self) -> bool:
        """Whether it is being judged: what its callback enqueues now comes too late."""
        return self.state is BatchState.ENDING

    def may_begin(self) -> bool:
        """Whether its callback may be called: not once it was abandoned. From any thread."""
        return self.state is BatchState.IN_FLIGHT

    def forget(self) -> None:
        """Lets go of its operations, which still point here: no cycle is left to collect."""
        self.operations = []
        self.requeued = {}


CURRENT: ContextVar[object] = ContextVar("dispatcher_current_batch", default=None)
"""The Batch, or the handing over of failed operations, whose callback this code runs in."""
