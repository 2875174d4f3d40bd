"""What one plan may spend. All sums with what was granted are here: the planner asks by operation,
so a limit of several dimensions would be another Budget, and nothing else."""

from __future__ import annotations

import math
from collections import deque
from typing import Protocol

from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.even_batches import even
from dispatcher._core.queues.lane import Lane
from dispatcher.operation import Operation, cost_of
from limiters._support.float_error import ALL_BUT_ERROR
from limiters.limiter import Grant, RateLimiter


class Budget(Protocol):
    """What may be spent in one plan."""

    @property
    def scarce(self) -> bool:
        """Whether it matters who is served first."""
        ...

    @property
    def left(self) -> float:
        """What nothing has been taken of yet."""
        ...

    def fits(self, operation: Operation) -> bool:
        """Whether the cost of `operation` is left."""
        ...

    def take(self, operation: Operation) -> bool:
        """Spends the cost of `operation` if it is left."""
        ...

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """Moves up to `most` of `waiting` into `batch`, as far as the budget goes."""
        ...

    def opening(self, lane: Lane, head: Operation) -> tuple[float, float | None]:
        """With how many operations the next batch of `lane` is full, which begins with `head`, and
        the cost it waits for; None if there is enough for what it will gather, or for a burst."""
        ...


class Unlimited:
    """No limit at all."""

    scarce = False
    left = math.inf

    def fits(self, operation: Operation) -> bool:
        """Always."""
        return True

    def take(self, operation: Operation) -> bool:
        """Always."""
        return True

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """All of them, at the speed of C."""
        next_ = waiting.popleft
        drawn = [next_() for _ in range(min(most, len(waiting)))]
        batch.operations += drawn
        batch.cost += cost_of(drawn)

    def opening(self, lane: Lane, head: Operation) -> tuple[float, float | None]:
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
    def of(cls, grant: Grant, limiter: RateLimiter, ready: float) -> Allowance:
        """What `limiter` has granted, where `ready` is the cost of all that could go out."""
        limit = math.inf if grant.fits(ready) else limiter.capacity
        return cls(grant.amount, limiter.burst, limit)

    def fits(self, operation: Operation) -> bool:
        """Whether its cost is left, but for what sums of fractions are off by."""
        return self.left >= operation._cost * ALL_BUT_ERROR  # as `float_error.covers`, a call less

    def take(self, operation: Operation) -> bool:
        """Spends its cost if it is left."""
        if not self.fits(operation):
            return False
        self.left -= operation._cost
        return True

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """From the front, until the next one does not fit."""
        while most and waiting and self.take(waiting[0]):
            batch.operations.append(operation := waiting.popleft())
            batch.cost += operation._cost
            most -= 1

    def opening(self, lane: Lane, head: Operation) -> tuple[float, float | None]:
        """One that is full may be a little smaller, so that all of a period is used."""
        gathered, whole = lane.gather(self.burst)
        full = lane.full
        if lane.missing <= 0 and whole and gathered:
            full = even(lane.full, gathered, self.limit)
            gathered = max(head._cost, gathered * full / lane.full)
        enough = self.left >= gathered * ALL_BUT_ERROR
        return full, None if enough else gathered
