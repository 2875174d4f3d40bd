"""Sums over the rows of a task, and of a micro-batch."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from limiters._costs import NUMBERS, AnyCost, Costs
from limiters.limits import BoundKind, Limits

NAMES = (
    "rows",
    "batches",
    "calls",
    "sent_rows",
    "replayed_rows",
    "late_rows",
    "rejected_rows",
    "held_rows",
    "retries",
    "throttled",
    "waited",
    "longest_wait",
    "handling",
)
"""The names of the sums. `longest_wait` is a maximum, all others are added up. So are costs, which
have a name for each dimension."""

_COST_OF = "cost:"
_SETTLED = "settled"
_SETTLED_OF = "settled:"


def names(dimensions: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the sums where costs have these dimensions."""
    each = tuple(dimensions)
    return (*NAMES, *map(cost_name, each), *map(settled_name, each))


def settled_name(dimension: str) -> str:
    """Return the name of the sum by which settlements change costs in one dimension."""
    return f"{_SETTLED_OF}{dimension}" if dimension else _SETTLED


def cost_name(dimension: str) -> str:
    """Return the name of the sum of costs in one dimension.

    >>> cost_name(""), cost_name("tokens")
    ('cost', 'cost:tokens')
    """
    return f"{_COST_OF}{dimension}" if dimension else "cost"


def cost_of(numbers: Mapping[str, float]) -> AnyCost:
    """Return the cost in `numbers`, a number or one by dimension.

    >>> cost_of({"rows": 7, "cost": 14.0}), cost_of({"cost:calls": 2, "cost:tokens": 0})
    (14.0, Costs(calls=2))
    """
    if "cost" in numbers:
        return numbers["cost"]
    named = (name for name in numbers if name.startswith(_COST_OF))
    return Costs({name.removeprefix(_COST_OF): numbers[name] for name in named})


def actual_of(numbers: Mapping[str, float]) -> AnyCost:
    """Return the cost in `numbers`, corrected by what handlers have settled.

    >>> actual_of({"cost": 14.0, "settled": -4.0}), actual_of({"cost:calls": 2, "settled:calls": 1})
    (10.0, Costs(calls=3))
    """
    estimated = cost_of(numbers)
    if isinstance(estimated, NUMBERS):
        return max(0.0, estimated + numbers.get(_SETTLED, 0.0))
    amounts = {
        name: max(0.0, estimated.amount(name) + numbers.get(settled_name(name), 0.0))
        for name in (one.removeprefix(_COST_OF) for one in numbers if one.startswith(_COST_OF))
    }
    return Costs(amounts)


def stored(numbers: Mapping[str, float]) -> dict[str, float]:
    """Return those of the sums that are added up over all micro-batches."""
    left_out = ("longest_wait", _SETTLED)
    return {
        name: one
        for name, one in numbers.items()
        if name not in left_out and not name.startswith(_SETTLED_OF)
    }


def used(limits: Limits, cost: AnyCost, seconds: float, handling: float) -> float | None:
    """Return which part of `limits` was used in so many seconds, in the dimension with the largest
    part. For calls in flight it is the part of the time of all slots; each call took `handling`
    seconds.

    >>> from limiters.limits import InFlight, Rate
    >>> used(Limits.of(100), 50.0, 2.0, 0.1)
    0.25
    >>> limits = Limits(requests=Rate(600, per=60), calls=InFlight(4))
    >>> used(limits, Costs({"requests": 5, "calls": 20}), 1.0, 0.1)
    0.5
    """
    if seconds <= 0:
        return None
    parts = (
        one
        * (handling if bound.kind is BoundKind.SLOTS else bound.period)
        / (bound.capacity * seconds)
        for bound, one in zip(limits.bounds, limits.by_bound(cost), strict=True)
    )
    return max(parts)


def schema(dimensions: Iterable[str]) -> str:
    """Return the schema of one task's sums for Spark.

    >>> schema(["a`b"]).split(", ")[-2]
    '`cost:a``b` double'
    """
    quoted = (name.replace("`", "``") for name in names(dimensions))
    return ", ".join(f"`{name}` double" for name in quoted)


class Sums:
    """The sums of one task. Thread-safe."""

    def __init__(self, dimensions: Iterable[str] = ("",)) -> None:
        self._lock = threading.Lock()
        self.numbers = dict.fromkeys(names(dimensions), 0.0)

    @property
    def done(self) -> float:
        """The number of rows that are sent, replayed, rejected or held."""
        numbers = self.numbers
        dealt_with = ("sent_rows", "replayed_rows", "rejected_rows", "held_rows")
        return sum(numbers[name] for name in dealt_with)

    def add(self, **numbers: float) -> None:
        with self._lock:
            _add(self.numbers, numbers)

    def spend(self, cost: AnyCost) -> None:
        """Add the cost of a call."""
        amounts = {"": cost} if isinstance(cost, NUMBERS) else cost
        self.add(**{cost_name(dimension): one for dimension, one in amounts.items() if one})

    def settle(self, changes: Mapping[str, float]) -> None:
        """Add by how much the cost of a call is more than it was charged, in each dimension in
        which rows or batches cost something."""
        named = {settled_name(dimension): change for dimension, change in changes.items()}
        self.add(**{name: change for name, change in named.items() if name in self.numbers})


def together(parts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the sums over several tasks."""
    numbers = dict.fromkeys(NAMES, 0.0)
    for part in parts:
        _add(numbers, part)
    return numbers


def _add(numbers: dict[str, float], more: Mapping[str, Any]) -> None:
    for name, number in more.items():
        if name == "longest_wait":
            numbers[name] = max(numbers[name], number)
        else:
            numbers[name] = numbers.get(name, 0.0) + number
