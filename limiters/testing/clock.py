"""A clock that only a test turns."""

from __future__ import annotations

from limiters._support.validation import amount


class ManualClock:
    """A clock that stands still until `advance` turns it.

    >>> clock = ManualClock()
    >>> clock.advance(1.5)
    >>> clock.now()
    1.5
    """

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """Return the time to which it was turned."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Turn it forward by `seconds`."""
        self._now += amount("seconds", seconds, zero=True)
