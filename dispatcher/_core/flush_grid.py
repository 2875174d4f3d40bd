"""The flush grid: the moments at which what waits for company is raised without. Pure."""

from __future__ import annotations

import math


class FlushGrid:
    """Every `interval` since the beginning, but only while something waits for it.

    >>> grid = FlushGrid(0.25)
    >>> grid.begin(10.0)
    >>> grid.schedule(10.3, waits=True)
    >>> grid.next, grid.due(10.4), grid.due(10.5)
    (10.5, False, True)
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._began = 0.0
        self.next = math.inf

    def begin(self, now: float) -> None:
        """Its first moment."""
        self._began = now

    def due(self, now: float) -> bool:
        """Whether the moment that was waited for has come."""
        return now >= self.next

    def schedule(self, now: float, *, waits: bool) -> None:
        """Finds the next moment, if anything waits for it."""
        if not waits:
            self.next = math.inf
        elif not now < self.next < math.inf:
            passed = math.floor((now - self._began) / self._interval)
            self.next = self._began + (passed + 1) * self._interval
