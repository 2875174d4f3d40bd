"""A clock for what runs on real threads, and has to wait for long."""

from __future__ import annotations

import time


class JumpingClock:
    """The real time, which a test may set forward: nothing is over before, however slow it is."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def now(self) -> float:
        """The present of the monotonic clock."""
        return time.monotonic() + self._ahead

    def advance(self, seconds: float) -> None:
        """Set the clock forward, by seconds."""
        self._ahead += seconds
