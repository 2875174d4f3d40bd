"""The cost of a message: a number, a field of its body, or the result of a function; in several
dimensions, one of these for each. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dispatcher.learned import KindOfCost, Learned
from dispatcher.timeline import Lease
from limiters._costs import AnyCost
from limiters._support.validation import UNSHOWN, ArgumentError, amount
from limiters.limits import BoundKind, Limits

Cost = (
    float
    | str
    | Mapping[str, float | str]
    | Learned
    | Callable[[Lease], float | Mapping[str, float]]
)

_SMOOTHING = 0.01
"""Weight of one message in the mean."""


class MessageCosts:
    """Reads costs, and remembers what they are on average. Not thread-safe.

    * `limits`: those to whose form costs are brought; None if there is no limiter. Costs in
      dimensions count for nothing then: there is nothing that they could be charged to.
    * `batch_cost`: the cost of a batch in addition, in that form.

    >>> MessageCosts(2.5).mean
    2.5
    """

    def __init__(self, rule: Cost, limits: Limits | None = None, batch_cost: AnyCost = 0) -> None:
        self.mean: AnyCost | None = None
        """None while it is not known."""
        self._batch_cost = batch_cost
        self._rule = rule
        self._limits = limits
        if isinstance(rule, Learned):
            self._normal("cost", rule.estimate_at_first)
        elif isinstance(rule, str):
            _check_field("cost", rule)
            self._check_is_of_one_dimension(rule)
        elif isinstance(rule, Mapping):
            named = {name: one for name, one in rule.items() if isinstance(one, str)}
            for name, field in named.items():
                _check_field(f"cost[{name!r}]", field)
            try:
                known = self._normal("cost", {**rule, **dict.fromkeys(named, 1)})
            except ArgumentError as error:
                raise ArgumentError(
                    error.parameter, dict(rule), error.requirement, error.advice
                ) from None
            if not named:
                self.mean = self._rule = known
        elif not callable(rule):
            self.mean = self._rule = self._normal("cost", amount("cost", rule, zero=True))

    def _check_is_of_one_dimension(self, field: str) -> None:
        limits = self._limits
        if limits is None or limits.is_scalar:
            return
        largest = max(limits.bounds, key=lambda one: (one.kind is BoundKind.RATE, one.capacity))
        parts = ((one, field if one == largest.dimension else "1") for one in limits.dimensions)
        example = ",".join(f"{name}={cost}" for name, cost in parts)
        raise ArgumentError("cost", field, "say of which dimension it is", f"as in {example}")

    def kind_of(self, message: Lease) -> AnyCost | KindOfCost:
        """Return the cost of a message, in the form that learns if it is learned."""
        if not isinstance(self._rule, Learned):
            return self.of(message)
        kind = self._rule.of(message)
        self._note(message, kind.estimate)
        return kind

    def of(self, message: Lease) -> AnyCost:
        """Return the cost of a message. ValueError if it cannot be used; a function may raise
        anything."""
        if self._rule is self.mean:
            return self.mean
        rule = self._rule
        found: object
        if isinstance(rule, str):
            found = _field(message, rule)
        elif isinstance(rule, Mapping):
            found = {
                name: _field(message, one) if isinstance(one, str) else one
                for name, one in rule.items()
            }
        else:
            assert callable(rule)
            found = rule(message)
        return self._note(message, found)

    def _note(self, message: Lease, found: object) -> AnyCost:
        cost = self._normal(f"the cost of {message.id!r}", found)
        mean = cost if self.mean is None else self.mean
        self.mean = mean + (cost - mean) * _SMOOTHING
        return cost

    def _normal(self, name: str, cost: object) -> AnyCost:
        limits = self._limits
        if not isinstance(cost, Mapping) and (
            isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < math.inf
        ):
            raise ValueError(f"{name} must be zero or more, not {cost!r}")
        if limits is None:
            return 0 if isinstance(cost, Mapping) else cost
        normal = limits.checked(name, cost)
        limits.check_call(name, self._batch_cost + normal, "or give the Worker a batch_cost")
        return normal


def normal_batch_cost(cost: AnyCost | Learned, limits: Limits | None) -> AnyCost:
    """Return the cost of a batch, in the form of the limiter; at first, if it is learned."""
    if limits is None:
        return 0
    return limits.checked(
        "batch_cost", cost.estimate_at_first if isinstance(cost, Learned) else cost
    )


def _check_field(name: str, field: str) -> None:
    if not field:
        raise ArgumentError(name, UNSHOWN, "name a field of the body, not ''")


def _field(message: Lease, name: str) -> object:
    body = message.body
    if not isinstance(body, Mapping) or name not in body:
        raise ValueError(f"the body of {message.id!r} has no field {name!r}, which is its cost")
    found: object = body[name]
    return found
