"""How costs are added up for a limiter, and which costs are too high for it."""

from __future__ import annotations

import math

from dispatcher._core.queues.buffer import NEVER
from dispatcher.errors import TooExpensiveError
from dispatcher.watcher import WatcherTerms
from limiters._costs import AnyCost, Costs, checked_cost, is_covered
from limiters._support.validation import ArgumentError
from limiters.limiter import RateLimiter
from limiters.limits import BoundKind


class CostTerms:
    """The costs of one Batcher, in the form of its limiter. The engine sets `most`; everything else
    may be called from any thread."""

    def __init__(self, limiter: RateLimiter | None) -> None:
        self._limits = None if limiter is None else limiter.limits
        self.most: AnyCost = math.inf if limiter is None else limiter.max_capacity
        """The highest cost that could ever be granted to one operation."""
        self.are_numbers = self._limits is None or self._limits.is_scalar
        """Whether costs are numbers here, rather than Costs of several dimensions."""
        self.nothing: AnyCost = 0 if self.are_numbers else Costs()
        bounds = () if self._limits is None else self._limits.bounds
        slots = {bound.dimension for bound in bounds if bound.kind is BoundKind.SLOTS}
        self.in_flight = frozenset(slots)
        """The dimensions that count calls in flight."""

    @property
    def quick_up_to(self) -> float:
        """The limiter can grant every operation up to this cost whose watcher has no batch cost,
        and its cost is in the form of the limiter already."""
        return NEVER if self.in_flight or isinstance(self.most, Costs) else self.most

    def normal(self, name: str, cost: AnyCost) -> AnyCost:
        """Return `cost` in the form in which costs are added up. Raise an ArgumentError of the
        argument `name` if its dimensions are not those of the limiter, or if it does not name
        them."""
        if self._limits is not None:
            return self._limits.normal(name, cost)
        if isinstance(cost, Costs):
            advice = "or the Batcher a rate_limiter with Limits of these dimensions"
            raise ArgumentError(name, dict(cost), "be a number without a rate_limiter", advice)
        return cost

    @property
    def are_limited(self) -> bool:
        """Whether there is a limiter that is charged."""
        return self._limits is not None

    def actual(self, name: str, value: object, estimated: AnyCost) -> AnyCost:
        """Return `value` as an actual cost, in the same form as the estimate `estimated`. Raise an
        ArgumentError of the argument `name` if it is not a possible cost."""
        if self._limits is not None:
            return self._limits.actual(name, value, estimated)
        return self.normal(name, checked_cost(name, value))

    def of_batch(self, terms: WatcherTerms) -> AnyCost:
        """Return the cost of a batch in addition to its operations."""
        return self.normal("batch_cost", terms.batch_cost) if terms.batch_cost else self.nothing

    def refusal(self, cost: AnyCost, batch_cost: AnyCost) -> TooExpensiveError | None:
        """Return the error for an operation of `cost` that could never be sent. None if it can
        be."""
        if is_covered(self.most, batch_cost + cost):
            return None
        return TooExpensiveError(cost, self.most, batch_cost)
