"""What all instances of a limit have done together, counted once each. Pure.

Instances tell what came to what they told before. A request that is sent again must not count
again: the coordinator sees that by its number, also when it gave up the sender meanwhile. The
same stands in lua/totals.lua.
"""

from __future__ import annotations

COUNTERS = (
    "operations_done",
    "operations_failed",
    "operations_abandoned",
    "operations_returned",
    "batches_done",
    "batches_failed",
    "batches_abandoned",
    "throttled",
    "retries",
    "pauses",
    "spent_shared",
    "spent_reserved",
    "sync_failures",
)
"""What is counted, in the order in which it is told and stored. New ones come last."""

HOUR_MS = 3_600_000
"""For so long, and at most twice as long, numbers of those who were given up are remembered."""


class LimitTotals:
    """See the module. One per limit. Not thread-safe.

    >>> totals = LimitTotals()
    >>> totals.add((3.0, 1.0))
    >>> totals.add((2.0,))
    >>> totals.counts
    (5.0, 1.0)
    """

    def __init__(self) -> None:
        self.counts: tuple[float, ...] = ()
        self.heard: dict[str, tuple[int, int]] = {}
        """Of those who were given up: in which hour, and the number of the last request."""

    def add(self, told: tuple[float, ...]) -> None:
        """Counts what somebody told."""
        length = max(len(told), len(self.counts))
        known = (*self.counts, *[0.0] * (length - len(self.counts)))
        new = (*told, *[0.0] * (length - len(told)))
        self.counts = tuple(one + other for one, other in zip(known, new, strict=True))

    def give_up(self, name: str, seq: int, now_ms: int) -> None:
        """Somebody whose last request was number `seq` is not waited for any more."""
        hour = now_ms // HOUR_MS
        last = max(seq, self.heard.get(name, (0, 0))[1])
        self.heard = {one: it for one, it in self.heard.items() if it[0] >= hour - 1}
        self.heard[name] = hour, last

    def knows(self, name: str, seq: int) -> bool:
        """Whether this request came before, from somebody who was given up since."""
        return seq <= self.heard.get(name, (0, 0))[1]
