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

    def check_longest_call(self, longest: float) -> None:
        """ArgumentError if callbacks may take longer than the limiter goes by."""
        if self._limits is not None:
            self._limits.check_longest_call("max_operation_time", longest)

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
        cost = terms.present_batch_cost
        return self.normal("batch_cost", cost) if cost else self.nothing

    def checked(self, cost: AnyCost, terms: WatcherTerms) -> AnyCost:
        """The `cost` of an operation for a watcher with these terms, in the form of the limiter.
        ArgumentError or TooExpensiveError if it could never go out as it should."""
        normal, batch_cost = self.normal("cost", cost), self.of_batch(terms)
        refusal = self.refusal(normal, batch_cost)
        if refusal is not None:
            raise refusal
        if self._limits is not None and (self.in_flight or terms.max_operation_time):
            whole, limits = batch_cost + normal, self._limits
            limits.check_call("cost", whole, self._advice)
            if terms.max_operation_time is not None:
                limits.check_longest_call("max_operation_time", terms.max_operation_time, whole)
        return normal

    @property
    def _advice(self) -> str:
        example = ", ".join(f"{name!r}: 1" for name in sorted(self.in_flight)[:1])
        return f"as in Watcher(..., batch_cost={{{example}}})"

    def refusal(self, cost: AnyCost, batch_cost: AnyCost) -> TooExpensiveError | None:
        """Why an operation of `cost` could never go out; None if it can."""
        if is_covered(self.most, batch_cost + cost):
            return None
        return TooExpensiveError(cost, self.most, batch_cost)
