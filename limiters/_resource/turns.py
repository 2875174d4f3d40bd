"""The order in which claimants of one ledger may spend. Pure.

Without it a claimant of small costs would always find enough capacity, and the capacity for a large
cost would never gather.
"""

from __future__ import annotations

from limiters._costs import AnyCost

GRACE = 0.1
"""Seconds after which a claimant is removed that does not ask again when its amount is
available."""


class Turns:
    """The claimants that wait for an amount, in order of arrival. While there are any, the others
    are granted nothing.

    >>> turns = Turns()
    >>> turns.wait("large", 80.0, until=5.0)
    >>> turns.wait("small", 1.0, until=5.0)
    >>> turns.is_for("small", now=1.0), turns.is_for("large", now=1.0)
    (False, True)
    >>> turns.end("large")
    True
    >>> turns.is_for("small", now=1.0), turns.is_for("large", now=6.0)
    (True, True)
    """

    def __init__(self) -> None:
        self._line: dict[object, tuple[AnyCost, float]] = {}

    def is_for(self, claimant: object, now: float) -> bool:
        """Whether `claimant` may be granted anything."""
        self._forget_the_gone(now)
        return not self._line or next(iter(self._line)) == claimant

    def wait(self, claimant: object, amount: AnyCost, until: float) -> None:
        """Let `claimant` wait for `amount`, at the end of the line or in its place. It asks again
        by `until`."""
        self._line[claimant] = (amount, until)

    def gathering(self, now: float) -> AnyCost:
        """Return the amount that the first claimant waits for."""
        self._forget_the_gone(now)
        return next(iter(self._line.values()))[0] if self._line else 0.0

    def end(self, claimant: object) -> bool:
        """Remove `claimant`, which has its amount or waits no more. Return whether it waited."""
        return self._line.pop(claimant, None) is not None

    def _forget_the_gone(self, now: float) -> None:
        while self._line:
            first = next(iter(self._line))
            if self._line[first][1] > now:
                return
            del self._line[first]
