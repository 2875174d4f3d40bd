"""The terms on which operations cost something: how costs are added up, and what is too much."""

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
    """Those of one limiter. One per Batcher; `most` is set by its engine, all else may be called
    from any thread."""

    def __init__(self, limiter: RateLimiter | None) -> None:
        self._limits = None if limiter is None else limiter.limits
        self.most: AnyCost = math.inf if limiter is None else limiter.max_capacity
        """The most that could ever be granted at once."""
        self.are_numbers = self._limits is None or self._limits.is_scalar
        """Whether costs are numbers here, not Costs of several dimensions."""
        self.nothing: AnyCost = 0 if self.are_numbers else Costs()
        bounds = () if self._limits is None else self._limits.bounds
        slots = {bound.dimension for bound in bounds if bound.kind is BoundKind.SLOTS}
        self.in_flight = frozenset(slots)
        """The dimensions that count calls in flight."""

    @property
    def quick_up_to(self) -> float:
        """An operation that costs no more, of a watcher without a batch cost, can be granted, and
        its cost is in the form of the limiter."""
        return NEVER if self.in_flight or isinstance(self.most, Costs) else self.most

    def normal(self, name: str, cost: AnyCost) -> AnyCost:
        """`cost` in the form that can be added to the others. ArgumentError of the argument `name`
        if it is of other dimensions, or does not say of which."""
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
        """`value` as the actual cost of what was estimated at `estimated`, in the same form.
        ArgumentError of the argument `name` if it is no possible cost."""
        if self._limits is not None:
            return self._limits.actual(name, value, estimated)
        return self.normal(name, checked_cost(name, value))

    def of_batch(self, terms: WatcherTerms) -> AnyCost:
        """What a batch costs besides its operations."""
        return self.normal("batch_cost", terms.batch_cost) if terms.batch_cost else self.nothing

    def refusal(self, cost: AnyCost, batch_cost: AnyCost) -> TooExpensiveError | None:
        """Why an operation of `cost` could never go out; None if it can."""
        if is_covered(self.most, batch_cost + cost):
            return None
        windows = self._limits.tightest_windows if self._limits is not None else {}
        return TooExpensiveError(cost, self.most, batch_cost, windows)
