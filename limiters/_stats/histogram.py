"""Histogram: how often something was how large, in a form that costs next to nothing to note."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

SECONDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Upper bounds of the buckets for durations."""


class Histogram:
    """Counts by upper bounds, and the sum. One thread notes; any thread may `copy`.

    >>> sizes = Histogram((10, 100))
    >>> sizes.note(10)
    >>> sizes.note_spread(50, 150, count=4)
    >>> sizes.counts, sizes.sum
    ([1, 2, 2], 410.0)
    """

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        """Values up to each bound and above the one before it; last, those above all bounds."""
        self.sum = 0.0

    def note(self, value: float) -> None:
        """Count one value, in its bucket."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def note_all(self, values: Sequence[float]) -> None:
        """Count each of these values."""
        bounds, counts = self.bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.sum += sum(values)

    def note_counted(self, values: Mapping[float, int]) -> None:
        """Count each value as often as the mapping says."""
        for value, count in values.items():
            self.counts[bisect_left(self.bounds, value)] += count
            self.sum += value * count

    def note_spread(self, low: float, high: float, count: int) -> None:
        """Count so many values, evenly from `low` to `high`."""
        first, last = bisect_left(self.bounds, low), bisect_left(self.bounds, high)
        below = 0
        for at in range(first, last):
            upto = round(count * (self.bounds[at] - low) / (high - low))
            self.counts[at] += upto - below
            below = upto
        self.counts[last] += count - below
        self.sum += count * (low + high) / 2

    def add(self, other: Histogram) -> None:
        """Add the counts of another one with the same bounds."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    def copy(self) -> Histogram:
        """Return a copy that does not change any more."""
        copied = Histogram(self.bounds)
        copied.counts, copied.sum = list(self.counts), self.sum
        return copied
