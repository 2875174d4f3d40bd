"""Entries that were settled, and the part of them that stayed. Pure.

A ledger counts the estimated cost of a batch. Once the true cost is known, the entry itself notes
it, by whatever thread; the ledger reads that when it is asked next. So nothing waits for a lock in
a callback, and no ledger goes through the calls that run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from limiters._budgets.spend import OPEN, BudgetEntry

LEAST_FRACTION = 1e-100
"""The smallest part of an entry that is still followed: less than that is as good as gone."""


class Stay:
    """Which part of the entries of a ledger has stayed in it, of those it had from some time on."""

    __slots__ = ("fraction",)

    def __init__(self) -> None:
        self.fraction = 1.0

    def less(self, part: float) -> Stay:
        """`part` of all goes away; what to follow later entries by."""
        self.fraction *= 1 - part
        if self.fraction >= LEAST_FRACTION:
            return self
        self.fraction = 0.0
        return Stay()


class Settlements:
    """Entries that were settled since their ledger looked last. Any thread may report, and one
    that looks may be interrupted: then it finds them again."""

    def __init__(self, freed: Callable[[], object]) -> None:
        """`freed`: called after the end of a call that cost less than estimated, if a caller waits:
        by the thread that says so, and without a lock."""
        self.reported: deque[BudgetEntry] = deque()
        """The entries that were not dealt with."""
        self._freed = freed
        self.awaited = False
        """Whether a caller asked when capacity would be there, since some came free last."""
        self.refunded = 0.0
        """By how much calls that have ended cost less than estimated, each for itself."""
        self.excess = 0.0
        """The sum of the amounts by which they cost more."""

    def report(self, entry: BudgetEntry) -> None:
        """`entry` was settled, or has ended after it was."""
        if not entry.reported:  # an answer that streams is settled often, and noted once
            entry.reported = True
            self.reported.append(entry)
        if self.awaited and entry.state is not OPEN and entry.counts < entry.estimated:
            self.awaited = False
            self._freed()

    def dealt_with(self, entries: Iterable[BudgetEntry]) -> None:
        """Remove `entries`, which were noted. Only now, so that an interrupt loses nothing."""
        try:
            for entry in entries:
                self.reported.remove(entry)
        except ValueError:  # a signal handler has removed one: the next look ends this
            return

    def account(self, entry: BudgetEntry, counts: float) -> None:
        """`entry`, whose call has ended, is settled for good."""
        entry.accounted = True
        excess = counts - entry.estimated
        if excess > 0:
            self.excess += excess
        else:
            self.refunded -= excess
