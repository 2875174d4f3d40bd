"""The highest cost that the limiter could ever allow: operations above it are refused, or fail."""

from __future__ import annotations

from dispatcher._core.batches.end import BatchEnd
from dispatcher._core.cost_terms import CostTerms
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.lane import Lane
from dispatcher._core.queues.lanes import Lanes
from dispatcher.errors import TooExpensiveError
from dispatcher.operation import Operation
from limiters._costs import AnyCost, Costs, is_covered
from limiters.limiter import RateLimiter


class CostCeiling:
    """Follows the limiter's `max_capacity`, which may change at run time (law C9). Owned by the
    engine."""

    def __init__(
        self,
        limiter: RateLimiter | None,
        costs: CostTerms,
        buffer: Buffer,
        lanes: Lanes,
        batch_end: BatchEnd,
    ) -> None:
        self._limiter = limiter
        self._costs = costs
        self._buffer = buffer
        self._lanes = lanes
        self._batch_end = batch_end
        self._admit()

    def covers(self, cost: AnyCost) -> bool:
        """Whether the limiter could ever grant `cost`."""
        return is_covered(self._costs.most, cost)

    def follow(self, now: float) -> None:
        """Adopt the present `max_capacity` of the limiter."""
        limiter = self._limiter
        if limiter is not None and limiter.max_capacity != self._costs.most:
            self._costs.most = limiter.max_capacity
            self._admit()
            self.refuse_oversized(now)

    def refuse_oversized(self, now: float) -> None:
        """Fail operations that can no longer be sent, so that they do not block those behind
        them."""
        for lane in self._lanes:
            self._refuse_oversized(now, lane)

    def _refuse_oversized(self, now: float, lane: Lane) -> None:
        def fits(operation: Operation) -> bool:
            return self.covers(lane.batch_cost + operation._cost)

        oversized = self._lanes.withdraw(lane, keep=fits)
        refusals = (self._costs.refusal(one._cost, lane.batch_cost) for one in oversized)
        errors = [one for one in refusals if one is not None]
        if errors:
            self._batch_end.fail(now, lane, oversized, max(errors, key=_excess))

    def _admit(self) -> None:
        self._buffer.admit_up_to(self._costs.quick_up_to)


def _excess(error: TooExpensiveError) -> float:
    cost = error.cost
    return cost.amount(error.dimension) if isinstance(cost, Costs) else cost
