"""What one plan may spend. All sums with what was granted are here, and in `budget_by_dimension`:
the planner asks by lane and operation, and knows neither amounts nor dimensions."""

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
"""The part of a batch that its own cost may be where scarce budget makes batches smaller than full:
each of them pays it once more."""


class Budget(Protocol):
    """What may be spent in one plan."""

    @property
    def scarce(self) -> bool:
        """Whether it matters who is served first."""
        ...

    def take(self, operation: Operation) -> bool:
        """Spends the cost of `operation`, for a batch that is open, if it is left."""
        ...

    def take_single(self, lane: Lane, operation: Operation) -> bool:
        """Spends the cost of `operation`, and of the batch that it makes by itself, if it is
        left."""
        ...

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """Moves up to `most` of `waiting` into `batch`, as far as the budget goes."""
        ...

    def opening(self, lane: Lane, head: Operation) -> tuple[float, AnyCost | None]:
        """With how many operations the next batch of `lane` is full, which begins with `head`, and
        the cost it waits for. None if there is enough for what it will gather, or for a burst: then
        the batch is open, and what it costs besides its operations is spent."""
        ...


class Unlimited:
    """No limit at all."""

    scarce = False

    def take(self, operation: Operation) -> bool:
        """Always."""
        return True

    def take_single(self, lane: Lane, operation: Operation) -> bool:
        """Always."""
        return True

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """All of them, at the speed of C."""
        next_ = waiting.popleft
        drawn = [next_() for _ in range(min(most, len(waiting)))]
        batch.operations += drawn
        batch.cost += cost_of(drawn)

    def opening(self, lane: Lane, head: Operation) -> tuple[float, AnyCost | None]:
        """It waits for nothing."""
        return lane.full, None


class Allowance:
    """A fixed amount; `limit` is what batches may cost in a period, if they have to wait for it."""

    scarce = True

    def __init__(self, amount: float, burst: float, limit: float = math.inf) -> None:
        self.left = amount
        self.burst = burst
        self.limit = limit

    @classmethod
    def of(cls, grant: Grant, limiter: RateLimiter, ready: AnyCost) -> Allowance:
        """What `limiter` has granted, where `ready` is the cost of all that could go out."""
        limit = math.inf if grant.fits(ready) else limiter.capacity
        return cls(grant.amount, limiter.burst, limit)

    def take(self, operation: Operation) -> bool:
        """Spends its cost if it is left, but for what sums of fractions are off by."""
        cost: float = operation._cost
        if self.left < cost * ALL_BUT_ERROR:  # as `float_error.covers`, a call less
            return False
        self.left -= cost
        return True

    def take_single(self, lane: Lane, operation: Operation) -> bool:
        """Spends its cost, and that of its batch, if it is left."""
        cost: float = lane.batch_cost + operation._cost
        if self.left < cost * ALL_BUT_ERROR:
            return False
        self.left -= cost
        return True

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """From the front, until the next one does not fit."""
        while most and waiting and self.take(waiting[0]):
            batch.operations.append(operation := waiting.popleft())
            batch.cost += operation._cost
            most -= 1

    def opening(self, lane: Lane, head: Operation) -> tuple[float, AnyCost | None]:
        """One that is full may be a little smaller, so that all of a period is used."""
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
        # What was forgiven to the sum is not lacking for its first operation.
        self.left = max(self.left - own, first)
        return full, None

    def _worth_waiting_for(self, batch_cost: float) -> float:
        """What operations of a batch cost for which it waits, if it costs something itself: a burst
        or more, of which `batch_cost` is no large part; but not more than a period has."""
        most = max(self.burst, self.limit)
        return max(0.0, min(most, max(self.burst, batch_cost / BATCH_COST_PART)) - batch_cost)


def _gathered(lane: Lane, first: float, enough: float) -> tuple[float, bool]:
    """What the operations of the next batch will cost, as far as they wait already, and whether
    that is all of it: only whole ones of at most `enough` count, but for the `first`."""
    gathered = 0.0
    cost: float
    for cost in lane.next_costs():
        if gathered + cost > enough:
            return max(first, gathered), False
        gathered += cost
    return max(first, gathered), gathered < enough
