"""What became of a task's rows, and of a micro-batch's."""

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
"""What is counted: longest_wait is the largest of all, everything else adds up. So do costs, which
have a name for each dimension."""

_COST_OF = "cost:"


def names(dimensions: Iterable[str]) -> tuple[str, ...]:
    """What is counted where costs have these dimensions."""
    return (*NAMES, *map(cost_name, dimensions))


def cost_name(dimension: str) -> str:
    """The name under which the cost in one dimension is counted.

    >>> cost_name(""), cost_name("tokens")
    ('cost', 'cost:tokens')
    """
    return f"{_COST_OF}{dimension}" if dimension else "cost"


def cost_of(numbers: Mapping[str, float]) -> AnyCost:
    """What was spent.

    >>> cost_of({"rows": 7, "cost": 14.0}), cost_of({"cost:calls": 2, "cost:tokens": 0})
    (14.0, Costs(calls=2))
    """
    if "cost" in numbers:
        return numbers["cost"]
    named = (name for name in numbers if name.startswith(_COST_OF))
    return Costs({name.removeprefix(_COST_OF): numbers[name] for name in named})


def used(limits: Limits, cost: AnyCost, seconds: float, handling: float) -> float | None:
    """Which part of `limits` was used in so many seconds, in the dimension of which it was most.
    Of calls in flight that is the time for which they were: each took `handling` seconds.

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
    """The columns of one task's sums, as Spark reads them.

    >>> schema(["a`b"]).split(", ")[-1]
    '`cost:a``b` double'
    """
    quoted = (name.replace("`", "``") for name in names(dimensions))
    return ", ".join(f"`{name}` double" for name in quoted)


class Sums:
    """Numbers that many threads add to."""

    def __init__(self, dimensions: Iterable[str] = ("",)) -> None:
        self._lock = threading.Lock()
        self.numbers = dict.fromkeys(names(dimensions), 0.0)

    @property
    def done(self) -> float:
        """How many rows are dealt with."""
        numbers = self.numbers
        dealt_with = ("sent_rows", "replayed_rows", "rejected_rows", "held_rows")
        return sum(numbers[name] for name in dealt_with)

    def add(self, **numbers: float) -> None:
        with self._lock:
            _add(self.numbers, numbers)

    def spend(self, cost: AnyCost) -> None:
        """Adds what a call has cost."""
        amounts = {"": cost} if isinstance(cost, NUMBERS) else cost
        self.add(**{cost_name(dimension): one for dimension, one in amounts.items() if one})


def together(parts: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The sums of several tasks."""
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
