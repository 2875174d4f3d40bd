"""ArrivalTimes: when the operation with a ticket came, known without noting each. Pure.

The engine takes in what has come, and says up to which ticket and when. In between, tickets
are taken to have come evenly: since the engine looked last, or all just now if nothing waited,
as then the first of them wakes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

MOST = 1_024


class ArrivalTimes:
    """Forgets nothing, but remembers with less precision when it gets much.

    >>> arrivals = ArrivalTimes()
    >>> arrivals.note(9, since=5.0, now=5.0)      # tickets up to 9 came just now
    >>> arrivals.note(19, since=5.0, now=7.0)     # ten more, since then
    >>> arrivals.at(3, 8.0), arrivals.at(14, 8.0), arrivals.at(19, 8.0)
    (5.0, 6.0, 7.0)
    """

    def __init__(self) -> None:
        self._tickets: list[int] = []
        self._starts: list[float] = []
        self._ends: list[float] = []

    def note(self, newest: int, since: float, now: float) -> None:
        """Tickets up to `newest`, and above those noted before, have come from `since` to `now`."""
        self._tickets.append(newest)
        self._starts.append(since)
        self._ends.append(now)
        if len(self._tickets) > MOST:
            self._thin_out()

    def at(self, ticket: int, unknown: float) -> float:
        """When it came; `unknown` if it is newer than all that were noted."""
        tickets = self._tickets
        place = bisect_left(tickets, ticket)
        if place == len(tickets):
            return unknown
        start, end = self._starts[place], self._ends[place]
        if start == end:
            return end
        before = tickets[place - 1] if place else -1
        return start + (end - start) * (ticket - before) / (tickets[place] - before)

    def _thin_out(self) -> None:
        # Of two neighbours one is made. The newest stay as they are: most of what is asked for.
        half = MOST // 2
        older = range(0, half - half % 2, 2)

        def merged(values: list[int] | list[float], choose: Callable[..., float]) -> list[float]:
            return [choose(values[at], values[at + 1]) for at in older] + list(
                values[len(older) * 2 :]
            )

        self._tickets = [int(one) for one in merged(self._tickets, max)]
        self._starts, self._ends = merged(self._starts, min), merged(self._ends, max)
