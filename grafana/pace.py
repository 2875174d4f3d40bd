"""Pace: how long the rules look back and wait. Tests run the same rules, only faster. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Every time in the rules is one of these, so that all of them can be shortened together.

    >>> Pace().window(300), Pace(1 / 100, least=2).window(300), Pace(1 / 100, least=2).hold(60)
    ('5m', '3s', '600ms')
    >>> Pace(1 / 100, least=2).window(60)  # a rate needs a few scrapes
    '2s'
    """

    scale: float = 1.0
    least: float = 0.0
    """Minimum length of a window, in seconds."""

    def window(self, seconds: float) -> str:
        """Return how far a rate looks back."""
        return _written(max(self.least, seconds * self.scale))

    def hold(self, seconds: float) -> str:
        """Return how long a condition has to hold until there is an alert."""
        return _written(seconds * self.scale)

    def late(self, seconds: float) -> str:
        """Return the lateness that counts, in seconds."""
        return f"{seconds * self.scale:g}"


def _written(seconds: float) -> str:
    ms = round(seconds * 1000)
    for unit, name in ((3_600_000, "h"), (60_000, "m"), (1000, "s")):
        if ms and ms % unit == 0:
            return f"{ms // unit}{name}"
    return f"{ms}ms"
