"""The excess of calls over their estimates: until when it counts, and how much of it counts with
other holders of the limit. Pure.

An excess counts where the call was charged. As far as that capacity has changed hands since, and as
far as there is no room for a cost that was not estimated, the next request passes it on to all
holders of the limit. An excess of reserved capacity that has no room there counts in the share of
its process, or if that holds none, with all as well.
"""

from __future__ import annotations

import math
from typing import Protocol

from limiters._budgets.spend import BudgetEntry

ROOM = 1e-3
"""The part of a shared limit that has to be free before calls begin that cost something although
they were estimated to cost nothing."""


class Debts:
    """The excess of one ledger. Not thread-safe."""

    def __init__(self, *, shared: bool, reserved: bool = False) -> None:
        """`shared`: others have the same limit. `reserved`: there is a shared limit, too."""
        self._shared = shared
        self._reserved = reserved
        self.until = -math.inf
        """Until when something counts that calls have cost beyond the estimate."""
        self._unasked_until = -math.inf
        """Until when something counts of calls that were estimated to cost nothing here; of a
        shared ledger, for as long as it exists: others make such calls, too."""
        self.elsewhere: dict[tuple[BudgetEntry, float], tuple[float, float]] = {}
        """(when, cost) of what counts with others, by the entry and what it counted for before: if
        an interrupt comes before that has changed, the same debt is noted once more."""

    def note(self, entry: BudgetEntry, until: float) -> None:
        """Note that `entry` counts for more than was charged, until then at least."""
        self.until = max(self.until, until)
        if not entry.estimated:
            unasked = math.inf if self._shared else until
            self._unasked_until = max(self._unasked_until, unasked)

    def is_unasked(self, now: float) -> bool:
        """Return whether calls that were estimated to cost nothing here did cost something."""
        return now < self._unasked_until

    def kept(self, entry: BudgetEntry, cost: float, room: float) -> float:
        """Return how much of a cost counts here. A holder of a shared limit may hold little or
        nothing of what calls were estimated not to cost."""
        if self._reserved or (self._shared and not entry.estimated):
            return min(cost, max(0.0, room))
        return cost


class TakesExcess(Protocol):
    """A ledger that counts the excess of reserved capacity."""

    def take_excess(self, debts: Debts, now: float) -> None:
        """Count it as an excess of the share; with all, if nothing is held."""
