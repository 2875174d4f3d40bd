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

from limiters.leases._format import MAX_ROUNDS, SHAPE, UNITS


@dataclass(frozen=True, slots=True)
class Level:
    """How far dominant shares grow until a bound is used up: `units` for so much weight of those
    who are not satisfied; `weight` is zero if there is enough for all."""

    units: int = 0
    weight: int = 0

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
    limited: bool
    """Whether it is less than it needs."""

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
        return Share(demand.needs, limited=False)
    parts = [scale * need for need in demand.needs]
    parts[scarcest] = most
    return Share(parts, limited=True)


def levels_of(
    demands: Sequence[NeedShape], wholes: Sequence[int], left: Sequence[int] | None = None
) -> list[Level]:
    """The level of each bound, of which this much is `left` for these demands: all of it, unless
    said otherwise.

    >>> [level] = levels_of([NeedShape([need], weight, [100]) for need, weight in
    ...                      ((10, 1), (100, 1), (100, 2))], [100])
    >>> level.units, level.weight // SHAPE
    (90, 3)
    """
    left = wholes if left is None else left
    levels = [Level() for _ in wholes]
    wants = [list(demand.needs) for demand in demands]
    short = [at for at, units in enumerate(left) if sum(want[at] for want in wants) > units]
    while short:
        found = {
            at: _level(
                [
                    (want[at], demand.weights[at])
                    for want, demand in zip(wants, demands, strict=True)
                ],
                left[at],
            )
            for at in short
        }
        short = [at for at in short if found[at].weight]
        if not short:
            break
        first = min(short, key=lambda at: found[at].units / found[at].weight / wholes[at])
        levels[first] = found[first]
        short.remove(first)
        if short:
            wants = [share_of(demand, levels).units for demand in demands]
    return levels


def _level(wants: Sequence[tuple[int, int]], units: int) -> Level:
    """The level of one bound, for what is wanted of it, and the weight, of each instance."""
    rest = [(want, weight) for want, weight in wants if want > 0]
    if sum(want for want, _ in rest) <= units:
        return Level()
    left, weights = units, sum(weight for _, weight in rest)
    for _ in range(MAX_ROUNDS):
        level = Level(left, weights)
        satisfied = [one for one in rest if one[0] <= math.floor(level.units_for(one[1]))]
        if not satisfied:
            break
        rest = [one for one in rest if one[0] > math.floor(level.units_for(one[1]))]
        left -= sum(want for want, _ in satisfied)
        weights -= sum(weight for _, weight in satisfied)
    return Level(max(0, left), weights)


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
