"""The storms with limits of several bounds: windows within windows, costs that count from the end
of a call, calls in flight."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Literal

from limiters.limits import InFlight, Limits, Rate
from limiters.testing import MixedCalls, Work
from tests.simulation.weather import Weather

SPENDINGS = 4_000
"""About so many a storm has at most."""


class Several(Weather):
    """A mixin in front of a kind of weather."""

    def _limits(self, capacity: float, period: float) -> Limits:
        random = self.random
        dimensions: dict[str, Rate | InFlight] = {}
        self.longest = period * random.choice([0.05, 0.3, 1.0])
        """The seconds that a call may last."""
        for name in ("a", "b")[: random.choice([1, 1, 2])]:
            dimensions[name] = self._rate(capacity * random.choice([0.3, 1.0]), period)
        slots = random.random() < 0.6
        if slots or len(dimensions) == 1:
            n = random.choice([1, 2, 3, 5, 12])
            dimensions["calls"] = InFlight(n, max_operation_time=max(0.01, self.longest))
        return Limits(**dimensions)

    def _rate(self, capacity: float, period: float) -> Rate:
        random = self.random
        also = []
        if random.random() < 0.4 and period >= 0.05:
            part = random.choice([0.1, 0.25, 0.5])
            inner = capacity * part * random.choice([1.0, 1.3, 1.9])
            also = [Rate(inner, per=max(0.005, period * part))]
        counts: Literal["start", "end"] = "end" if random.random() < 0.25 else "start"
        return Rate(capacity, period, also, counts=counts, max_operation_time=self.longest)

    def work(self) -> Work:
        """What one instance has to do."""
        random, end = self.random, self.end
        costs = [self._cost() for _ in range(random.choice([1, 2, 2, 3]))]
        lasting = (0.0, self.longest * random.choice([0.0, 0.2, 1.0]))
        on, off, first = (self.span * random.random() for _ in range(3))
        greedy = self.greedy or random.random() < 0.4
        return MixedCalls(
            costs,
            Random(random.random()),
            lasting=lasting,
            most=random.choice([1, 10, 1000]),
            on=lambda now: greedy or (now - first) % (on + off) < on or now > end,
        )

    def _cost(self) -> dict[str, float]:
        """At least so much of one dimension that a storm has no more than so many spendings."""
        random = self.random
        large = random.random() < self.oversized / 2
        cost: dict[str, float] = {}
        for name in self.limit.dimensions:
            bounds = [one for one in self.limit.bounds if one.dimension == name]
            most = min(one.capacity for one in bounds)
            fast = min(one.capacity / one.period for one in bounds) * self.end / SPENDINGS
            if name == "calls":
                cost[name] = random.choice([0, 1, 1, 1])
                continue
            part = random.choice([0.3, 0.7, 1.0]) if large else random.choice([0.01, 0.05, 0.2])
            cost[name] = min(most, max(most * part, fast)) * random.choice([0, 1, 1])
        if not any(cost[one.dimension] for one in self.limit.bounds if one.dimension != "calls"):
            first = self.limit.bounds[0]
            cost[first.dimension] = min(
                min(one.capacity for one in self.limit.bounds if one.dimension == first.dimension),
                max(first.capacity * 0.05, first.capacity / first.period * self.end / SPENDINGS),
            )
        return cost

    @property
    def limit(self) -> Limits:
        """What is shared."""
        return self.cluster.limit

    def changed(self, factor: float) -> list[float]:
        """Each bound changes by itself."""
        random = self.random
        return [
            max(1.0, float(round(one.capacity * random.choice([0.5, 1, 2]))))
            if one.slots
            else one.capacity * random.choice([1, factor])
            for one in self.terms.bounds
        ]


def several(kind: Callable[..., Weather]) -> Callable[..., Weather]:
    """That kind of weather, with several bounds."""
    assert isinstance(kind, type)
    return type(f"Several{kind.__name__}", (Several, kind), {})
