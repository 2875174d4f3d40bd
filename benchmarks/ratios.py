"""Compare figures of two trees that were measured in turns."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

TOLERANCE = 0.03
"""A difference up to this counts as none, if the measurements were exact."""


@dataclass(frozen=True)
class Ratios:
    """The ratios of one figure, one for each round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The ratio in the middle."""
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles: half of the rounds are this near."""
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return (high - low) / 2

    def __str__(self) -> str:
        return f"{self.median:.3f} ± {self.spread:.3f}"


@dataclass(frozen=True)
class Comparison:
    """One figure of a tree against that of the base, and of the base against itself."""

    name: str
    change: Ratios
    noise: Ratios

    @classmethod
    def of(
        cls, name: str, base: Sequence[float], again: Sequence[float], head: Sequence[float]
    ) -> Comparison:
        """From what each round measured: the base, the base once more, and the other tree."""
        change = (
            new / (first + second) * 2 for first, second, new in zip(base, again, head, strict=True)
        )
        noise = (second / first for first, second in zip(base, again, strict=True))
        return cls(name, Ratios(tuple(change)), Ratios(tuple(noise)))

    @property
    def bound(self) -> float:
        """By how much they may differ: 3 %, and the spread of the base against itself."""
        return TOLERANCE + self.noise.spread

    @property
    def differs(self) -> bool:
        """Whether they differ by more than that."""
        return abs(self.change.median - 1) > self.bound

    def __str__(self) -> str:
        mark = "DIFFERS" if self.differs else "same"
        return (
            f"  {mark:<8} {self.name:<52} {self.change}   base/base {self.noise}"
            f"   bound ±{self.bound:.1%}"
        )


def verdict(comparisons: Sequence[Comparison]) -> str:
    """One line on all of them."""
    differing = [one for one in comparisons if one.differs]
    if differing:
        told = ", ".join(f"{one.name} ({one.change.median - 1:+.1%})" for one in differing)
        return f"verdict: differs by more than 3 % plus the spread: {told}"
    spread = max((one.noise.spread for one in comparisons), default=0.0)
    told = "verdict: no difference beyond 3 % plus the spread"
    if spread <= TOLERANCE:
        return told
    return (
        f"{told}, which is up to {spread:.0%}: on a quieter machine, or in more rounds, it is less"
    )
