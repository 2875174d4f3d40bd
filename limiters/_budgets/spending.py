"""The spending of one bound since a ledger was made, in sums that never fall. Pure."""

from __future__ import annotations

from typing import NamedTuple


class Spending(NamedTuple):
    """`estimated - refunded + excess` is the cost of the callbacks that have begun: as estimated
    while they run, and as settled once they have ended.

    >>> before, after = Spending(estimated=30), Spending(estimated=60, refunded=20)
    >>> after.plus(before)
    Spending(estimated=90, refunded=20.0, excess=0.0)
    """

    estimated: float = 0.0
    """The estimated cost of callbacks that have begun."""
    refunded: float = 0.0
    """By how much those that have ended cost less than estimated, each for itself."""
    excess: float = 0.0
    """The sum of the amounts by which they cost more."""

    def plus(self, other: Spending) -> Spending:
        """Return the sums of both."""
        return Spending(*(mine + its for mine, its in zip(self, other, strict=True)))
