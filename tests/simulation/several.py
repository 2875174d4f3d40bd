"""The storms with limits of several bounds: windows within windows, costs that count from the end
of a call, calls in flight."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from limiters.limits import InFlight, Limits, Rate
from limiters.testing import MixedCalls, Work
from tests.simulation.judge import Limited
from tests.simulation.weather import Weather

SPENDINGS = 4_000
"""About so many a storm has at most."""


class Several(Weather):
    """A mixin in front of a kind of weather."""

    def _limits(self, capacity: float, period: float) -> Limits:
        random = self.random
        self.limited = []
        dimensions: dict[str, Rate | InFlight] = {}
        self.longest = max(0.01, period * random.choice([0.05, 0.3, 1.0]))
        for name in ("a", "b")[: random.choice([0, 1, 1, 1, 2, 2])]:
            dimensions[name] = self._rate(name, capacity * random.choice([0.3, 1.0]), period)
        if random.random() < 0.6 or len(self.limited) < 2:
            dimensions["calls"] = self._calls(random.choice([1, 2, 3, 5, 12]))
        self.outlasting = all(one.lax for one in self.limited if one.slots or one.at_end)
        """Whether calls may last longer than they should: not if they count as long as they last,
        since no test waits for that long after a kill."""
        return Limits(**dimensions)

    def _calls(self, n: int) -> InFlight:
        strict = self.random.random() < 0.7
        self.limited.append(Limited("calls", n, self.longest, slots=True, lax=not strict))
        return InFlight(n, strict, self.longest)

    def _rate(self, name: str, capacity: float, period: float) -> Rate:
        random = self.random
        at_end = random.random() < 0.25
        windows = [(capacity, period)]
        if random.random() < 0.4 and period >= 0.05:
            part = random.choice([0.1, 0.25, 0.5])
            inner = capacity * part * random.choice([1.0, 1.3, 1.9])
            windows.append((inner, max(0.005, period * part)))
        for most, seconds in windows:
            self.limited.append(
                Limited(name, most, seconds, at_end=at_end, longest=self.longest if at_end else 0.0)
            )
        also = [Rate(most, per=seconds) for most, seconds in windows[1:]]
        if at_end:
            return Rate(capacity, period, also, counts="end", max_operation_time=self.longest)
        return Rate(capacity, period, also)

    def work(self) -> Work:
        """Return the work of one instance."""
        random, end = self.random, self.end
        costs = [self._cost() for _ in range(random.choice([1, 2, 2, 3]))]
        outlasting = self.outlasting and random.random() < 0.3
        lasting = (0.0, self.longest * random.choice([2.0] if outlasting else [0.0, 0.2, 1.0]))
        on, off, first = (self.span * random.random() for _ in range(3))
        greedy = self.greedy or random.random() < 0.4
        return MixedCalls(
            costs,
            Random(random.random()),
            lasting=lasting,
            most=random.choice([1, 10, 1000]),
            on=lambda now: greedy or (now - first) % (on + off) < on or now > end,
        )

    def _cost(self) -> dict[str, float] | float:
        """Return a cost that is large enough in one dimension that a storm has only so many
        spendings."""
        random = self.random
        large = random.random() < self.oversized / 2
        part = random.choice([0.3, 0.7, 1.0]) if large else random.choice([0.01, 0.05, 0.2])
        cost: dict[str, float] = {}
        for name in dict.fromkeys(one.dimension for one in self.limited):
            bounds = [one for one in self.limited if one.dimension == name]
            if name == "calls":
                cost[name] = random.choice([0, 1, 1, 1]) if len(self.limited) > 1 else 1
            else:
                cost[name] = self._amount(bounds, part) * random.choice([0, 1, 1])
        rates = [one for one in self.limited if not one.slots]
        if rates and not any(cost[one.dimension] for one in rates):
            first = rates[0].dimension
            cost[first] = self._amount([one for one in rates if one.dimension == first], 0.05)
        return cost if len(cost) > 1 else next(iter(cost.values()))

    def _amount(self, bounds: list[Limited], part: float) -> float:
        most = min(one.capacity for one in bounds)
        fast = min(one.capacity / one.period for one in bounds) * self.end / SPENDINGS
        return min(most, max(most * part, fast))

    def changed(self, factor: float) -> list[float]:
        """Each bound changes by itself, often only one of them."""
        random = self.random
        only = random.choice([None, random.randrange(len(self.limited))])
        return [
            0.0
            if only not in (None, at)
            else max(1.0, float(round(one.capacity * random.choice([0.5, 1, 2]))))
            if one.slots
            else one.capacity * random.choice([1, factor])
            for at, one in enumerate(self.terms.bounds)
        ]


class SeveralSlots(Several):
    """The same, where a call may take several slots."""

    def _cost(self) -> dict[str, float] | float:
        cost, slots = super()._cost(), [one.capacity for one in self.limited if one.slots]
        takes = min([*slots, float(self.random.choice([1, 2, 3, 5, 12]))])
        if isinstance(cost, dict) and "calls" in cost:
            return {**cost, "calls": takes}
        return takes if slots and len(self.limited) == 1 else cost


def several(kind: Callable[..., Weather], mixin: type[Several] = Several) -> Callable[..., Weather]:
    """That kind of weather, with several bounds."""
    assert isinstance(kind, type)
    return type(f"{mixin.__name__}{kind.__name__}", (mixin, kind), {})
