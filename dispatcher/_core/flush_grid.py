"""The flush grid: the times at which batches are raised that are not full. Pure."""

from __future__ import annotations

import math


class FlushGrid:
    """A time every `interval` seconds since the beginning, but only while operations wait.

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
        """Set the first time of the grid."""
        self._began = now

    def due(self, now: float) -> bool:
        """Whether the next time has come."""
        return now >= self.next

    def schedule(self, now: float, *, waits: bool) -> None:
        """Find the next time, if operations wait for it."""
        if not waits:
            self.next = math.inf
        elif not now < self.next < math.inf:
            passed = math.floor((now - self._began) / self._interval)
            self.next = self._began + (passed + 1) * self._interval
