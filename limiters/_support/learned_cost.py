"""Learned costs of calls, as they are shown to people: nothing is decided by them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MOST_COSTS = 16
"""Costs that an instance shows: of the kinds that were settled most often."""

LONGEST_KIND = 40
"""Characters of a kind, and of a dimension."""

VISIBLE = 0.05
"""A number that has changed by no more than this part looks as it was."""


@dataclass(frozen=True, slots=True)
class LearnedCost:
    """The learned cost of the operations of a kind in one dimension, of one instance."""

    kind: str
    dimension: str
    """Empty where costs are numbers."""
    estimate: float
    """The estimated cost of the next operation."""
    settled: int
    """How many were settled."""
    cold: bool
    """Whether that is too few, so that the estimate is the one with which learning starts."""


def looks_the_same(before: Iterable[LearnedCost], after: Iterable[LearnedCost]) -> bool:
    """Whether no cost came, went or changed visibly."""
    old = {(one.kind, one.dimension): one for one in before}
    new = {(one.kind, one.dimension): one for one in after}
    return old.keys() == new.keys() and all(
        one.cold == new[key].cold
        and abs(new[key].estimate - one.estimate) <= VISIBLE * one.estimate
        and abs(new[key].settled - one.settled) <= VISIBLE * one.settled
        for key, one in old.items()
    )
