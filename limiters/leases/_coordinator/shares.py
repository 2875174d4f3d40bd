"""Weighted max-min fair shares of whole units. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from limiters.leases._format import MAX_ROUNDS


@dataclass(frozen=True, slots=True)
class Level:
    """Each gets what it wants, but at most `units` for `weight` of weight; without a bound if
    `weight` is zero: then there is enough for everybody."""

    units: int = 0
    weight: int = 0

    def share(self, want: int, weight: int) -> int:
        """What an instance may have that wants `want`."""
        if not self.weight:
            return want
        return min(want, weight * self.units // self.weight)


def level_of(asks: Iterable[tuple[int, int]], units: int) -> Level:
    """The fair level for (want, weight) of each instance.

    >>> level_of([(10, 1), (100, 1), (100, 2)], 100)
    Level(units=90, weight=3)
    >>> level_of([(10, 1), (20, 1)], 100)
    Level(units=0, weight=0)
    """
    rest = [(want, weight) for want, weight in asks if want > 0]
    if sum(want for want, _ in rest) <= units:
        return Level()
    left, weights = units, sum(weight for _, weight in rest)
    for _ in range(MAX_ROUNDS):
        satisfied = [(want, weight) for want, weight in rest if _fits(want, weight, left, weights)]
        if not satisfied:
            break
        rest = [(want, weight) for want, weight in rest if not _fits(want, weight, left, weights)]
        left -= sum(want for want, _ in satisfied)
        weights -= sum(weight for _, weight in satisfied)
    return Level(max(0, left), weights)


def _fits(want: int, weight: int, units: int, weights: int) -> bool:
    return want <= weight * units // weights
