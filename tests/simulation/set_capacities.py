"""Which capacity of a bound is in force, by what its operators have set: the judge's own account of
it, so that no mistake of a coordinator is taken for the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass

STEPS = 100
"""In so many steps a ramp is described, each of which is what is in force at its end."""

FAST = 1.002
"""Clocks may run fast by a part of this."""


@dataclass(frozen=True)
class Change:
    """From when on, from how much, to how much, and by how much a second; 0 means immediately."""

    at: float
    start: float
    goal: float
    rate: float

    def in_force(self, now: float) -> float:
        """Return the largest capacity that may be in force at that time."""
        if self.rate <= 0 or self.goal <= self.start:
            return self.goal
        return min(self.goal, self.start + self.rate * (now - self.at) * FAST)

    def steps(self, until: float) -> list[tuple[float, float]]:
        """(from when on, how much) up to that time."""
        if self.rate <= 0 or self.goal <= self.start:
            return [(self.at, self.goal)]
        width = min(until - self.at, (self.goal - self.start) / self.rate) / STEPS
        times = [self.at + width * number for number in range(STEPS)]
        return [(at, self.in_force(at + width)) for at in times]


class SetCapacities:
    """The capacities that operators have set for one bound."""

    def __init__(self, capacity: float, *, slots: bool) -> None:
        self.changes = [Change(0.0, capacity, capacity, 0.0)]
        self.slots = slots

    def set(self, now: float, capacity: float, ramp: float) -> None:
        """An operator has set it."""
        self.changes.append(Change(now, self.changes[-1].in_force(now), capacity, ramp))

    def most(self, now: float) -> float:
        """The largest that was ever set."""
        return max(one.goal for one in self.changes if one.at <= now)

    def steps(self) -> list[tuple[float, float]]:
        """(from when on, how much) of all changes, as the judge takes them."""
        ends = [*(one.at for one in self.changes[1:]), math.inf]
        each = zip(self.changes, ends, strict=True)
        steps = [step for one, until in each for step in one.steps(until)]
        return [(at, math.floor(one)) for at, one in steps] if self.slots else steps
