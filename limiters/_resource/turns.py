"""Who may spend next, where several share one ledger and each needs some amount at once. Pure.

Without it whoever asks for little and often would always find a little, and who needs much at
once would never see it come together.
"""

from __future__ import annotations

from limiters._costs import AnyCost

GRACE = 0.1
"""Seconds after its amount could be had that a claimant who does not ask again is forgotten."""


class Turns:
    """The claimants who wait for an amount, first come first served; while there are any, the
    others are granted nothing.

    >>> turns = Turns()
    >>> turns.wait("dear", 80.0, until=5.0)
    >>> turns.wait("cheap", 1.0, until=5.0)
    >>> turns.is_for("cheap", now=1.0), turns.is_for("dear", now=1.0)
    (False, True)
    >>> turns.end("dear")
    True
    >>> turns.is_for("cheap", now=1.0), turns.is_for("dear", now=6.0)
    (True, True)
    """

    def __init__(self) -> None:
        self._line: dict[object, tuple[AnyCost, float]] = {}

    def is_for(self, claimant: object, now: float) -> bool:
        """Whether `claimant` may be granted anything."""
        self._forget_the_gone(now)
        return not self._line or next(iter(self._line)) == claimant

    def wait(self, claimant: object, amount: AnyCost, until: float) -> None:
        """`claimant` waits for `amount`, at the end of the line or where it stands; it asks
        again by `until`."""
        self._line[claimant] = (amount, until)

    def gathering(self, now: float) -> AnyCost:
        """The amount that the first in line waits for."""
        self._forget_the_gone(now)
        return next(iter(self._line.values()))[0] if self._line else 0.0

    def end(self, claimant: object) -> bool:
        """`claimant` has what it waited for, or waits no more; whether it did wait."""
        return self._line.pop(claimant, None) is not None

    def _forget_the_gone(self, now: float) -> None:
        while self._line:
            first = next(iter(self._line))
            if self._line[first][1] > now:
                return
            del self._line[first]
