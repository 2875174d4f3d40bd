"""How costs are added up for a limiter, and which costs are too high for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from weakref import WeakKeyDictionary

from dispatcher._core.queues.buffer import NEVER
from dispatcher._core.queues.learned_costs import LearnedCosts
from dispatcher.errors import TooExpensiveError
from dispatcher.learned import Learned
from dispatcher.operation import Operation, has_learned_estimate
from dispatcher.watcher import WatcherTerms
from limiters._costs import (
    Amounts,
    AnyCost,
    Costs,
    checked_cost,
    greater,
    is_covered,
    lesser,
)
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
        self.amounts_of: Callable[[str, object], Amounts] = (
            _actual_number if self._limits is None else self._limits.amounts_of
        )
        """Returns the amounts that an actual cost names, which is an argument of this name. Raises
        ArgumentError if it is not a possible cost."""
        self._largest: WeakKeyDictionary[Learned, AnyCost] = WeakKeyDictionary()
        """The highest costs of operations whose batches have a cost that is learned."""
        self.learned = LearnedCosts()
        """The learned costs that its operations have taught."""

    @property
    def quick_up_to(self) -> float:
        """The limiter can grant every operation up to this cost whose watcher has no batch cost,
        and its cost is in the form of the limiter already."""
        return NEVER if self.in_flight or isinstance(self.most, Costs) else self.most

    def normal(self, name: str, cost: AnyCost) -> AnyCost:
        """Return `cost` in the form in which costs are added up. Raise an ArgumentError of the
        argument `name` if its dimensions are not those of the limiter, or if it does not name
        them."""
        return _number(name, cost) if self._limits is None else self._limits.normal(name, cost)

    def check_longest_call(self, longest: float) -> None:
        """Raise ArgumentError if callbacks may take longer than the limiter counts with."""
        if self._limits is not None:
            self._limits.check_longest_call("max_operation_time", longest)

    @property
    def are_limited(self) -> bool:
        """Whether there is a limiter that is charged."""
        return self._limits is not None

    def of_batch(self, terms: WatcherTerms) -> AnyCost:
        """Return the cost of a batch in addition to its operations."""
        learned = terms.learned_batch_cost
        if learned is None:
            return self._of_batch(terms.batch_cost)
        kind, largest = learned.of(None), self._largest.get(learned, self.nothing)
        cost = self._of_batch(kind.estimate)
        return lesser(cost, self._left(largest)) if kind.is_learned else cost

    def _of_batch(self, cost: AnyCost) -> AnyCost:
        return self.normal("batch_cost", cost) if cost else self.nothing

    def checked(self, operation: Operation) -> AnyCost:
        """Return the cost of `operation` in the form of the limiter. Raise ArgumentError or
        TooExpensiveError if it could never be sent as it should.

        An estimate that was learned is at most what can be granted: if it were refused, no
        settlement could ever correct it.
        """
        assert operation._watcher is not None
        terms = operation._watcher._terms
        normal, batch_cost = self.normal("cost", operation._cost), self.of_batch(terms)
        learned = terms.learned_batch_cost
        if has_learned_estimate(operation):
            yields = learned is not None and learned.of(None).is_learned
            normal = lesser(normal, self._left(self.nothing if yields else batch_cost))
        if learned is not None:
            self._largest[learned] = greater(self._largest.get(learned, self.nothing), normal)
            batch_cost = self.of_batch(terms)
        refusal = self.refusal(normal, batch_cost)
        if refusal is not None:
            raise refusal
        if self._limits is not None and (self.in_flight or terms.max_operation_time):
            whole, limits = batch_cost + normal, self._limits
            limits.check_call("cost", whole, self._advice)
            if terms.max_operation_time is not None:
                limits.check_longest_call("max_operation_time", terms.max_operation_time, whole)
        return normal

    def _left(self, cost: AnyCost) -> AnyCost:
        """The most that can be granted in addition to `cost`."""
        return greater(self.nothing, self.most - cost)

    @property
    def _advice(self) -> str:
        example = ", ".join(f"{name!r}: 1" for name in sorted(self.in_flight)[:1])
        return f"as in Watcher(..., batch_cost={{{example}}})"

    def refusal(self, cost: AnyCost, batch_cost: AnyCost) -> TooExpensiveError | None:
        """Return the error for an operation of `cost` that could never be sent. None if it can
        be."""
        if is_covered(self.most, batch_cost + cost):
            return None
        windows = self._limits.tightest_windows if self._limits is not None else {}
        return TooExpensiveError(cost, self.most, batch_cost, windows)


def _number(name: str, cost: AnyCost) -> float:
    """Return `cost` for a Batcher without a limiter. ArgumentError if it has dimensions."""
    if isinstance(cost, Costs):
        advice = "or the Batcher a rate_limiter with Limits of these dimensions"
        raise ArgumentError(name, dict(cost), "be a number without a rate_limiter", advice)
    return cost


def _actual_number(name: str, value: object) -> float:
    return _number(name, checked_cost(name, value))
