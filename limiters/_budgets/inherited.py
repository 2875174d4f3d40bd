"""Spending of others that came along with capacity: it counts here until it expires. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator


class InheritedSpending:
    """Entries by the coordinator's time stamp, each with its cost and when it expires by this
    instance's clock. They are passed on with their stamp unchanged. Not thread-safe.

    >>> inherited = InheritedSpending()
    >>> inherited.add(100, 8.0, expires=5.0)
    >>> inherited.split(0.25)
    ((100, 2.0),)
    >>> inherited.total(now=4.9), inherited.total(now=5.0)
    (6.0, 0.0)
    """

    def __init__(self) -> None:
        self._entries: dict[int, tuple[float, float]] = {}
        self._first = math.inf
        self._total = 0.0

    def add(self, stamp: int, cost: float, expires: float) -> None:
        """Counts `cost` until it expires."""
        before, until = self._entries.get(stamp, (0.0, -math.inf))
        self._entries[stamp] = before + cost, max(until, expires)
        self._sum()

    def total(self, now: float) -> float:
        """Return what counts at this time."""
        if now >= self._first:
            self._entries = {at: one for at, one in self._entries.items() if one[1] > now}
            self._sum()
        return self._total

    def split(self, part: float) -> tuple[tuple[int, float], ...]:
        """Takes `part` of every entry out: (time stamp, cost)."""
        taken = tuple((at, cost * part) for at, (cost, _) in sorted(self._entries.items()))
        self._entries = (
            {at: (cost - cost * part, expires) for at, (cost, expires) in self._entries.items()}
            if part < 1
            else {}
        )
        self._sum()
        return taken

    def forget_stamps(self) -> None:
        """Another server is in charge: its stamps are other times. What counts here counts on,
        under stamps that no server gives out."""
        self._entries = {-number: one for number, one in enumerate(self._entries.values(), 1)}

    def coming_free(self) -> Iterator[tuple[float, float]]:
        """(when, cost) of what expires, in order."""
        return iter(sorted((expires, cost) for cost, expires in self._entries.values()))

    def _sum(self) -> None:
        self._total = math.fsum(cost for cost, _ in self._entries.values())
        self._first = min((expires for _, expires in self._entries.values()), default=math.inf)
