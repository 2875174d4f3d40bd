"""What a message costs: a number, a field of its body, or what a function says. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from dispatcher.timeline import Lease
from limiters._support.validation import UNSHOWN, ArgumentError, amount

Cost = float | str | Callable[[Lease], float]

_SMOOTHING = 0.01
"""How much one message counts in the mean."""


class MessageCosts:
    """Reads costs, and remembers what they are on average. Not thread-safe.

    >>> MessageCosts(2.5).mean
    2.5
    """

    def __init__(self, rule: Cost) -> None:
        self.mean: float | None = None
        """None while it is not known."""
        self._rule = rule
        if isinstance(rule, str):
            if not rule:
                raise ArgumentError("cost", UNSHOWN, "name a field of the body, not ''")
        elif not callable(rule):
            self.mean = amount("cost", rule, zero=True)

    def of(self, message: Lease) -> float:
        """What it costs. ValueError: nothing that can be used; a function may raise anything."""
        rule = self._rule
        if isinstance(rule, str):
            cost = _field(message, rule)
        elif callable(rule):
            cost = rule(message)
        else:
            return rule
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost < math.inf:
            raise ValueError(f"the cost of {message.id!r} must be zero or more, not {cost!r}")
        mean = cost if self.mean is None else self.mean
        self.mean = mean + (cost - mean) * _SMOOTHING
        return cost


def _field(message: Lease, name: str) -> float:
    body = message.body
    if not isinstance(body, Mapping) or name not in body:
        raise ValueError(f"the body of {message.id!r} has no field {name!r}, which is its cost")
    cost: float = body[name]
    return cost
