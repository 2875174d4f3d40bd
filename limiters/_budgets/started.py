"""The spending that began in the last period, by slices of it. Pure.

All that began in one slice is one entry, so that the size depends on time, not on the number of
batches.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from limiters._guard import guard_of

SLICES = 1000
"""The slices of a period. What began in one counts from its end: that costs at most 1/SLICES of the
capacity."""


class StartedSpending:
    """The costs of what began, each until a period has passed. Not thread-safe.

    >>> started = StartedSpending(period=1.0, shared=False)
    >>> slice_ = started.slice_of(0.0005)
    >>> started.costs[slice_] = 5.0
    >>> started.time_of(slice_), round(started.expires(slice_), 3)
    (0.001, 1.007)
    """

    def __init__(self, period: float, *, shared: bool) -> None:
        """`shared`: other processes count it by their clocks, too."""
        self.costs: dict[int, float] = {}
        """By slice. Each slice that is in it came from `slice_of`."""
        self._expiries: list[int] = []
        self.life = period + guard_of(period, shared=shared)
        """The seconds for which it counts."""
        self._width = period / SLICES

    def slice_of(self, at: float) -> int:
        """Return the slice of this time, to enter a cost there."""
        slice_ = math.ceil(at / self._width)
        if slice_ not in self.costs:
            heapq.heappush(self._expiries, slice_)
        return slice_

    def slice_at(self, at: float) -> int:
        """Return the slice of this time, which may not be there any more."""
        return math.ceil(at / self._width)

    def time_of(self, slice_: int) -> float:
        """Return from when on `slice_` counts for a period."""
        return slice_ * self._width

    def expires(self, slice_: int) -> float:
        """Return until when `slice_` counts."""
        return slice_ * self._width + self.life

    def next_slice(self, now: float) -> float:
        """Return when the next slice begins, at the latest."""
        return now + self._width

    def expire(self, now: float) -> None:
        """Remove what counts no longer."""
        while self._expiries and self.expires(self._expiries[0]) <= now:
            # In this order, here and where something begins: each cost has an expiry, also if an
            # interrupt comes in between.
            self.costs.pop(self._expiries[0], None)
            heapq.heappop(self._expiries)

    def take(self, part: float) -> list[tuple[float, float]]:
        """Take `part` of each cost out, and return them: (when, cost), in order."""
        taken = [(slice_ * self._width, cost * part) for slice_, cost in self.costs.items()]
        if part < 1:
            self.costs = {at: cost - cost * part for at, cost in self.costs.items()}
        else:
            self.costs, self._expiries = {}, []
        return sorted(taken)

    def coming_free(self) -> Iterator[tuple[float, float]]:
        """Return (when, cost) of what expires, in order."""
        return ((self.expires(slice_), cost) for slice_, cost in sorted(self.costs.items()))
