"""What was spent on an amount, by time: entries that can be split exactly. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from limiters._guard import GUARD_MS
from limiters.leases._format import FLOAT_ERROR, SLICES


def slice_end(at: int, period: int) -> int:
    """The end of the slice in which `at` lies: stamps are rounded up to it, once."""
    width = max(1, period // SLICES)
    return -(-at // width) * width


def counts_for(period: int) -> int:
    """How long an entry counts after its stamp: the period, and a guard."""
    return period + guard_for(period)


def guard_for(duration: int) -> int:
    """How much longer than a duration that is measured by several clocks something counts."""
    return max(GUARD_MS, -(-duration * GUARD_MS // 1000))


class Ledger:
    """Entries (time stamp, cost), in order of time, one for each stamp. RoundSums are taken in that
    order, so that both implementations round alike.

    >>> ledger = Ledger([(100, 8.0), (200, 4.0)])
    >>> ledger.split(0.25).entries
    [(100, 2.0), (200, 1.0)]
    >>> ledger.total(since=100)
    3.0
    """

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[tuple[int, float]] = ()) -> None:
        self.entries: list[tuple[int, float]] = []
        for at, cost in entries:
            self.add(at, cost)

    def add(self, at: int, cost: float) -> None:
        """Counts `cost` until a period after `at`."""
        if cost <= 0:
            return
        index = bisect_left(self.entries, at, key=_stamp)
        if index < len(self.entries) and self.entries[index][0] == at:
            self.entries[index] = at, self.entries[index][1] + cost
        else:
            self.entries.insert(index, (at, cost))

    def merge(self, entries: Iterable[tuple[int, float]], part: float = 1.0) -> None:
        """Adds `part` of the entries of another ledger."""
        for at, cost in entries:
            self.add(at, cost * part)

    def subtract(self, at: int, cost: float) -> float:
        """Takes `cost` back from the entry at `at`, as far as there is so much; how much it was."""
        index = bisect_left(self.entries, at, key=_stamp)
        if index == len(self.entries) or self.entries[index][0] != at:
            return 0.0
        before = self.entries[index][1]
        left = before - cost
        if left > FLOAT_ERROR * before:
            self.entries[index] = at, left
            return cost
        del self.entries[index]
        return before

    def split(self, part: float) -> Ledger:
        """Takes `part` of every entry out, so that both parts have the same profile in time."""
        taken = Ledger()
        if part >= 1:
            taken.entries, self.entries = self.entries, []
        elif part > 0:
            taken.entries = [(at, cost * part) for at, cost in self.entries]
            self.entries = [(at, cost - cost * part) for at, cost in self.entries]
        return taken

    def total(self, since: int) -> float:
        """Drops the entries up to `since`; the sum of the others."""
        self.entries = [entry for entry in self.entries if entry[0] > since]
        total = 0.0
        for _, cost in self.entries:
            total += cost
        return total


def believed(
    entries: Iterable[tuple[int, float]], most: float, since: int
) -> list[tuple[int, float]]:
    """What a request says was spent on something that is worth `most`: no more than that, so that
    it takes nothing from others; and only what still counts after `since`."""
    counting = [(at, max(0.0, cost)) for at, cost in entries if at > since]
    total = 0.0
    for _, cost in counting:
        total += cost
    if total > most * (1 + FLOAT_ERROR):
        counting = [(at, cost / total * most) for at, cost in counting]
    return counting


def _stamp(entry: tuple[int, float]) -> int:
    return entry[0]
