"""Fair shares of several bounds: dominant resource fairness in whole units, weighted. Pure.

Each instance needs something of each bound. Its *dominant* share is the largest of what it has, as
parts of the whole bounds. All dominant shares grow alike, by weight, until a bound is used up:
instances that need that bound stop there, the others go on. With one bound that is weighted
max-min.

Only sums of integers, and products in a fixed order, decide; so the order of the instances does not
matter, and both implementations agree to the unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from limiters.leases._format import CALM, SHAPE, UNITS, USE_PARTS


@dataclass(frozen=True, slots=True)
class Level:
    """How far dominant shares grow until a bound is used up: `units` for so much weight of those
    who are not satisfied; `weight` is zero if there is enough for all."""

    units: float = 0.0
    weight: int = 0

    @property
    def ratio(self) -> float:
        """Units for a weight of one; 0 if there is enough for all."""
        return self.units / self.weight if self.weight else 0.0

    def units_for(self, weight: int) -> float:
        """What so much weight may have at most."""
        return float(weight) * self.units / self.weight


class NeedShape:
    """What one instance needs of each bound, and its weight in each: that of the instance, times
    the ratio of its need to its dominant one, in parts of SHAPE."""

    __slots__ = ("needs", "weights")

    def __init__(self, needs: Sequence[int], weight: int, wholes: Sequence[int]) -> None:
        self.needs = needs
        parts = [need / whole for need, whole in zip(needs, wholes, strict=True)]
        dominant = max(parts)
        self.weights = [
            weight * math.ceil(part / dominant * SHAPE) if part else 0 for part in parts
        ]


@dataclass(frozen=True, slots=True)
class Share:
    """What an instance may have of each bound, before it is rounded down."""

    parts: Sequence[float]
    scarcest: int = -1
    """The bound that limits it: of this one it would need more; -1 if it gets all that it needs."""

    @property
    def limited(self) -> bool:
        """Whether it is less than it needs."""
        return self.scarcest >= 0

    @property
    def units(self) -> list[int]:
        """The same in whole units."""
        return [math.floor(part) for part in self.parts]


def share_of(demand: NeedShape, levels: Sequence[Level]) -> Share:
    """What these levels leave to an instance: the mix that it needs, as much of it as the scarcest
    of its bounds allows."""
    scale, scarcest, most = 1.0, -1, 0.0
    for at, (need, weight, level) in enumerate(
        zip(demand.needs, demand.weights, levels, strict=True)
    ):
        if level.weight and need:
            units = level.units_for(weight)
            if units / need < scale:
                scale, scarcest, most = units / need, at, units
    if scarcest < 0:
        return Share(demand.needs)
    parts = [scale * need for need in demand.needs]
    parts[scarcest] = most
    return Share(parts, scarcest)


@dataclass(slots=True)
class Filling:
    """How far a bound is filled by the instances that a round has visited, at the levels of that
    round: the sums from which its next level follows."""

    used: int = 0
    """What those use that it does not limit, in parts of a unit (see `parts_of`)."""
    limited: int = 0
    """Weight of those that it limits."""
    weight: int = 0
    """Weight of all that need it."""

    def next_level(self, level: Level, left: int, whole: int) -> Level:
        """The level that divides what the others leave of `left` among those that the bound limits:
        a step of Newton's method. From below it never goes too far; from above it may, so it goes
        down by half at most."""
        used = self.used / parts_of(whole)
        if not level.weight:
            return Level(float(max(0, left)), self.weight) if used > left else Level()
        half = Level(level.units / 2, level.weight)
        if not self.limited:
            return half if used > left else Level()
        step = Level(max(0.0, left - used), self.limited)
        return half if step.ratio < half.ratio else step


def parts_of(whole: int) -> int:
    """In how many parts of a unit the use of a bound is counted. If each use were rounded down to
    units, a bound could seem free that is used up, by a unit of a rate or by a slot."""
    return USE_PARTS // whole


def in_order(levels: Sequence[Level], wholes: Sequence[int]) -> list[int]:
    """The bounds, those that are used up first in front, and last those that are not short."""
    heights = [
        one.units / one.weight / whole if one.weight else math.inf
        for one, whole in zip(levels, wholes, strict=True)
    ]
    return sorted(range(len(levels)), key=lambda at: heights[at])


def fill(
    fillings: Sequence[Filling],
    demand: NeedShape,
    levels: Sequence[Level],
    order: Sequence[int],
    wholes: Sequence[int],
) -> None:
    """Counts one instance. How much of a bound it uses depends on bounds before that alone, in this
    order: so the first level does not depend on the others, and the second only on the first. All
    come to rest, but for rare crowds in which a level goes on changing by what is rounded."""
    scale = 1.0
    for at in order:
        need, weight = demand.needs[at], demand.weights[at]
        level, filling = levels[at], fillings[at]
        filling.weight += weight
        if need and level.weight and (units := level.units_for(weight)) / need < scale:
            filling.limited += weight
            scale = units / need
        else:
            filling.used += math.floor(scale * need * parts_of(wholes[at]))


def next_levels(
    levels: Sequence[Level],
    fillings: Sequence[Filling],
    left: Sequence[int],
    order: Sequence[int],
    wholes: Sequence[int],
) -> list[Level]:
    """The levels after a round. Where one moves far, those behind it stay: they would follow what
    is not going to last."""
    found = list(levels)
    for at in order:
        before, found[at] = levels[at], fillings[at].next_level(levels[at], left[at], wholes[at])
        if found[at].weight and abs(found[at].ratio - before.ratio) > before.ratio / CALM:
            break
    return found


def dominant_share(
    needs: Sequence[int], weight: int, levels: Sequence[Level], wholes: Sequence[int]
) -> int:
    """How much of its dominant bound an instance could have if it needed as much as it could get,
    in parts of UNITS; at least one."""
    idle = not any(needs)
    units = UNITS
    for need, level, whole in zip(needs, levels, wholes, strict=True):
        if level.weight and (need or idle):
            units = min(units, math.floor(level.units_for(weight * SHAPE) * (UNITS / whole)))
    return max(1, units)
