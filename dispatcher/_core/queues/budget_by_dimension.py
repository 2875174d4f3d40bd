"""The budget of one plan in a limit with several dimensions: like `budget`, for each of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.budget import BATCH_COST_PART
from dispatcher._core.queues.even_batches import even
from dispatcher._core.queues.lane import Lane
from dispatcher.operation import Operation, cost_of
from limiters._costs import AnyCost, Costs, greater
from limiters._support.float_error import ALL_BUT_ERROR
from limiters.limiter import Grant, RateLimiter


class AllowanceByDimension:
    """A fixed amount of each dimension.

    * `capacity`: the amount of each that may be spent in one period.
    * `speeds`: how much of each comes in per second; dimensions without a speed are slots.
    * `waits`: whether batches have to wait for the amount.
    """

    scarce = True

    def __init__(
        self,
        amount: Costs,
        burst: Costs,
        *,
        capacity: Costs,
        speeds: Mapping[str, float],
        waits: bool = False,
    ) -> None:
        self.left = dict(amount)
        self.burst = burst
        self.capacity = capacity
        self.speeds = speeds
        self.waits = waits

    @classmethod
    def of(cls, grant: Grant, limiter: RateLimiter, ready: AnyCost) -> AllowanceByDimension:
        """Return the allowance that `limiter` has granted, where `ready` is the cost of all that
        could be sent."""
        amount, burst, capacity = grant.amount, limiter.burst, limiter.capacity
        assert isinstance(amount, Costs)
        assert isinstance(burst, Costs)
        assert isinstance(capacity, Costs)
        speeds = limiter.limits.speed(capacity)
        assert isinstance(speeds, Costs)
        waits = not grant.fits(ready)
        return cls(amount, burst, capacity=capacity, speeds=speeds, waits=waits)

    def take(self, operation: Operation) -> bool:
        """Spend the cost of `operation` if all of it is left, apart from the float error of
        sums."""
        return self._take(operation._cost)

    def take_single(self, lane: Lane, operation: Operation) -> bool:
        """Spend the cost of `operation` and of its batch, if all of it is left."""
        return self._take(lane.batch_cost + operation._cost)

    def draw(self, waiting: deque[Operation], most: int, batch: OperationBatch) -> None:
        """Move operations from the front into `batch`, until the next one does not fit."""
        drawn: list[Operation] = []
        while len(drawn) < most and waiting and self._take(waiting[0]._cost):
            drawn.append(waiting.popleft())
        batch.operations += drawn
        batch.cost += cost_of(drawn)

    def opening(self, lane: Lane, head: Operation) -> tuple[float, AnyCost | None]:
        """Open the next batch of `lane`. One that is full may be a little smaller, so that all of a
        period is used."""
        own = _costs(lane.batch_cost)
        gathered, whole = self._gathered(lane, head)
        full = lane.full
        if self.waits and whole and lane.missing <= 0:
            full = self._even(full, gathered, own)
            gathered = _costs(greater(head._cost, self._part(gathered, full / lane.full)))
        cost = own + gathered
        if not self._covers(cost):
            return full, cost
        self._take(own)
        # The float error that the sum was allowed must not be missing for its first operation.
        for name, first in _costs(head._cost).items():
            self.left[name] = max(self.left[name], first)
        return full, None

    def _take(self, cost: AnyCost) -> bool:
        left = self.left
        amounts = _costs(cost).items()
        for name, one in amounts:
            if left.get(name, 0.0) < one * ALL_BUT_ERROR:
                return False
        for name, one in amounts:
            left[name] -= one
        return True

    def _covers(self, cost: Costs) -> bool:
        left = self.left
        return all(left.get(name, 0.0) >= one * ALL_BUT_ERROR for name, one in cost.items())

    def _gathered(self, lane: Lane, head: Operation) -> tuple[Costs, bool]:
        """Return the cost of the next batch's operations, as far as they wait already, and whether
        that is all of it. Only whole operations count, up to what is worth waiting for; the first
        one always counts."""
        enough = self._worth_waiting_for(_costs(lane.batch_cost))
        total: dict[str, float] = {}
        for cost in lane.next_costs():
            after = {name: total.get(name, 0.0) + one for name, one in _costs(cost).items()}
            if any(one > enough.get(name, 0.0) for name, one in after.items()):
                return _costs(greater(head._cost, Costs(total))), False
            total.update(after)
        whole = all(one < enough.get(name, 0.0) for name, one in total.items())
        return _costs(greater(head._cost, Costs(total))), whole

    def _worth_waiting_for(self, batch_cost: Costs) -> dict[str, float]:
        """Return, by dimension, the cost of operations for which a batch waits: a burst, or more if
        the batch itself costs something and would need more time for that than `BATCH_COST_PART` of
        its whole time; but not more than a period has."""
        seconds = max((self._seconds(name, one) for name, one in batch_cost.items()), default=0.0)
        enough: dict[str, float] = {}
        for name in self.capacity + self.burst:
            burst = self.burst.amount(name)
            worth = seconds / BATCH_COST_PART * self.speeds.get(name, 0.0)
            most = max(burst, self.capacity.amount(name))
            enough[name] = max(0.0, min(most, max(burst, worth)) - batch_cost.amount(name))
        return enough

    def _even(self, full: float, gathered: Costs, own: Costs) -> float:
        """Return the even size of batches in the dimension that takes the longest to come in."""
        cost = own + gathered
        name = max(cost, key=lambda one: self._seconds(one, cost[one]), default="")
        if not gathered.amount(name) or name not in self.speeds:
            return full  # smaller batches take no less of it
        return even(full, gathered[name], self.capacity.amount(name), own.amount(name))

    def _part(self, cost: Costs, part: float) -> Costs:
        """Return this part of `cost`; calls in flight stay whole numbers."""
        parts = {name: one * part for name, one in cost.items()}
        return Costs(
            {name: one if name in self.speeds else math.ceil(one) for name, one in parts.items()}
        )

    def _seconds(self, name: str, amount: float) -> float:
        """Return how many seconds that amount of a dimension takes to come in."""
        speed = self.speeds.get(name, 0.0)
        return amount / speed if speed else 0.0


def _costs(cost: AnyCost) -> Costs:
    """Return `cost` as Costs; a number is a cost of nothing here."""
    return cost if isinstance(cost, Costs) else Costs()
