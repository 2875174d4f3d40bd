"""The partitions that nobody holds, and what was spent of them in the last period. Pure.

The same stands in lua/pool.lua.
"""

from __future__ import annotations

import math

from limiters.float_error import FLOAT_ERROR
from limiters.leases import ranges
from limiters.leases.messages import History, partitions_of
from limiters.leases.ranges import EMPTY, Ranges
from limiters.portion import portion

GUARD_MS = 6
"""What an entry counts beyond each second of its period, as in the instances' own ledgers."""

SLICES = 200
"""What was spent is rounded to slices of a period, to the later end."""


def counts_ms(period_ms: int) -> int:
    """For how long what was spent counts."""
    return period_ms + max(GUARD_MS, math.ceil(period_ms * GUARD_MS / 1000))


class Pool:
    """See the module. One per limit. Not thread-safe."""

    def __init__(self) -> None:
        self.partitions = self.full = 0
        self.remainder = 0.0
        self.last: Ranges = EMPTY
        """The partition that is worth only a remainder, if there is one."""
        self.free: Ranges = EMPTY
        self.condemned: Ranges = EMPTY
        """Held, but beyond the number of partitions that there are now."""
        self.spent: dict[int, float] = {}

    def follow(self, capacity: float, factor: float) -> bool:
        """Has as many partitions as `capacity` makes; whether that is another number."""
        before, now = self.partitions, partitions_of(capacity, factor)
        self.partitions = now
        self.full = math.floor(capacity / factor + FLOAT_ERROR)
        self.remainder = capacity / factor - self.full if self.full < now else 0.0
        self.last = ranges.span(self.full, now)
        if before == now:
            return False
        new, gone = ranges.span(before, now), ranges.span(now, before)
        self.condemned = ranges.union(self.condemned, ranges.without(gone, self.free))
        self.free = ranges.without(self.free, gone)
        self.free = ranges.union(self.free, ranges.without(new, self.condemned))
        self.condemned = ranges.without(self.condemned, new)
        return True

    # What partitions are worth.

    def full_ones(self, held: Ranges) -> int:
        """How many of `held` are worth as much as a partition is."""
        return ranges.count_below(held, self.full)

    def has_last(self, held: Ranges) -> bool:
        """Whether the one that is worth only a remainder is among them."""
        return bool(ranges.common(held, self.last))

    def units(self, held: Ranges) -> float:
        """What `held` is worth, in partitions."""
        return self.full_ones(held) + self.remainder * self.has_last(held)

    def free_full(self) -> Ranges:
        """Those that are free and worth as much as a partition is."""
        return ranges.without(self.free, self.last)

    # Coming and going.

    def claim(self, held: Ranges) -> Ranges:
        """What nobody else holds of `held`, which is not free any more."""
        claimed = ranges.common(held, self.free)
        self.free = ranges.without(self.free, claimed)
        return claimed

    def take(
        self, granted: Ranges, now_ms: int, period_ms: int, factor: float
    ) -> list[tuple[int, float]]:
        """Takes `granted` out of what is free, with its part of what was spent.

        Never more than it is worth: after the capacity was lowered there may be more than that,
        and if it is raised again, what is beyond must count against what comes back.
        """
        if not granted:
            return []
        spent = self._still_counts(now_ms, period_ms)
        units = self.units(granted)
        part = units / self.units(self.free) * sum(cost for _, cost in spent)
        self.free = ranges.without(self.free, granted)
        taken, left = portion(spent, min(part, units * factor))
        self.spent = dict(left)
        return taken

    def take_back(self, released: Ranges) -> None:
        """They are free again, if they still are partitions."""
        there = ranges.span(0, self.partitions)
        self.free = ranges.union(self.free, ranges.common(released, there))
        self.condemned = ranges.without(self.condemned, released)

    def remember(self, history: History, now_ms: int, period_ms: int) -> None:
        """Keeps what was spent of those that came back."""
        slice_ms = max(1, period_ms // SLICES)
        entries = [
            (math.ceil((now_ms - age_ms) / slice_ms) * slice_ms, cost) for age_ms, cost in history
        ]
        self.put_back(entries, now_ms, period_ms)

    def put_back(self, taken: list[tuple[int, float]], now_ms: int, period_ms: int) -> None:
        """Keeps what was spent, by when; that which still counts."""
        for at, cost in taken:
            self.spent[at] = self.spent.get(at, 0.0) + cost
        self.spent = dict(self._still_counts(now_ms, period_ms))

    def _still_counts(self, now_ms: int, period_ms: int) -> list[tuple[int, float]]:
        oldest = now_ms - counts_ms(period_ms)
        return [entry for entry in sorted(self.spent.items()) if entry[0] > oldest]
