"""The budget of one plan. All sums with granted capacity are here and in `budget_by_dimension`: the
planner asks by lane and operation, and handles neither amounts nor dimensions."""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.even_batches import even
from dispatcher._core.queues.lane import Lane
from dispatcher.operation import Operation, cost_of
from limiters._costs import AnyCost
from limiters._support.float_error import ALL_BUT_ERROR
from limiters.limiter import Grant, RateLimiter

BATCH_COST_PART = 0.03
"""The largest part of a batch's cost that may be its own batch cost, where a scarce budget makes
batches that are not full: each additional batch pays it again."""


class Budget(Protocol):
    """The budget of one plan."""

    @property
    def scarce(self) -> bool:
        """Whether the budget may be too small for all, so that the order of service matters."""
        ...

    def take(self, operation: Operation) -> bool:
        """Spend the cost of `operation`, for a batch that is open; False if too little is left."""
        ...

    def take_single(self, lane: Lane, operation: Operation) -> bool:
        """Spend the cost of `operation` and of the batch that it makes by itself; False if too
        little is left."""
        ...

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """Move up to `most` of `waiting` into `batch`, as far as the budget allows."""
        ...

    def opening(self, lane: Lane, head: Operation) -> tuple[float, AnyCost | None]:
        """Return with how many operations the next batch of `lane`, which begins with `head`, is
        full, and the cost that it waits for. None if the budget suffices for its operations or for
        a burst: then the batch is open, and its own cost is spent."""
        ...


class Unlimited:
    """The budget without a limit: it allows everything."""

    scarce = False

    def take(self, operation: Operation) -> bool:
        return True

    def take_single(self, lane: Lane, operation: Operation) -> bool:
        return True

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """Move up to `most` of `waiting` into `batch` without a loop in Python."""
        next_ = waiting.popleft
        drawn = [next_() for _ in range(min(most, len(waiting)))]
        batch.operations += drawn
        batch.cost += cost_of(drawn)

    def opening(self, lane: Lane, head: Operation) -> tuple[float, AnyCost | None]:
        return lane.full, None


class Allowance:
    """The budget of a fixed amount. `limit` is the capacity of a period, if batches have to wait
    for capacity."""

    scarce = True

    def __init__(self, amount: float, burst: float, limit: float = math.inf) -> None:
        self.left = amount
        self.burst = burst
        self.limit = limit

    @classmethod
    def of(cls, grant: Grant, limiter: RateLimiter, ready: AnyCost) -> Allowance:
        """Return the budget of `grant`. `ready` is the cost of all operations that could be
        raised."""
        limit = math.inf if grant.fits(ready) else limiter.capacity
        return cls(grant.amount, limiter.burst, limit)

    def take(self, operation: Operation) -> bool:
        """Spend its cost if it is left, except for the error of sums of floats."""
        cost: float = operation._cost
        if self.left < cost * ALL_BUT_ERROR:  # as `float_error.covers`, a call less
            return False
        self.left -= cost
        return True

    def take_single(self, lane: Lane, operation: Operation) -> bool:
        """Spend its cost and that of its batch, if they are left."""
        cost: float = lane.batch_cost + operation._cost
        if self.left < cost * ALL_BUT_ERROR:
            return False
        self.left -= cost
        return True

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """Move operations from the front, until the next one does not fit."""
        while most and waiting and self.take(waiting[0]):
            batch.operations.append(operation := waiting.popleft())
            batch.cost += operation._cost
            most -= 1

    def opening(self, lane: Lane, head: Operation) -> tuple[float, AnyCost | None]:
        """Return the size and the missing cost of the next batch. A full batch may be slightly
        smaller, so that all capacity of a period is used."""
        own: float = lane.batch_cost
        first: float = head._cost
        enough = self._worth_waiting_for(own) if own else self.burst
        gathered, whole = _gathered(lane, first, enough)
        full = lane.full
        if lane.missing <= 0 and whole and gathered:
            full = even(lane.full, gathered, self.limit, own)
            gathered = max(first, gathered * full / lane.full)
        cost = own + gathered
        if self.left < cost * ALL_BUT_ERROR:
            return full, cost
        # The tolerated error of the sum must not make the first operation fail.
        self.left = max(self.left - own, first)
        return full, None

    def _worth_waiting_for(self, batch_cost: float) -> float:
        """Return the cost of operations for which a batch with its own cost waits: a burst, or more
        if `batch_cost` would otherwise be a large part, but not more than the capacity of a
        period."""
        most = max(self.burst, self.limit)
        return max(0.0, min(most, max(self.burst, batch_cost / BATCH_COST_PART)) - batch_cost)


def _gathered(lane: Lane, first: float, enough: float) -> tuple[float, bool]:
    """Return the cost of the operations of the next batch that wait already, and whether these are
    all. Operations count while their sum is at most `enough`; the `first` always counts."""
    gathered = 0.0
    cost: float
    for cost in lane.next_costs():
        if gathered + cost > enough:
            return max(first, gathered), False
        gathered += cost
    return max(first, gathered), gathered < enough
