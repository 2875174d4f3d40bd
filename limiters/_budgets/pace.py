"""The pace of one limit: capacity comes in evenly, and at most a burst of it is kept for later, so
that a full second is not spent in its first millisecond. Only an amount that is larger than a burst
gathers for longer. Pure.

The pace is that of actual costs, as far as they are known: with estimates, no more calls would run
at the same time than a burst is worth, however little of it they cost. The window counts estimates
in full.
"""

from __future__ import annotations

import math

from limiters._budgets.spend import OPEN, BudgetEntry

UNEVEN, UNEVEN_PERIODS = 3, 3
"""So many times a burst may go without a pause, at least, for a few periods after capacity changed
hands: others spent at other times, and room comes back in the same uneven way. If others spent more
than this at one time, so much may go: an operation that costs the whole limit leaves room for all
of it at one time."""

LEAST_LIKELY = 0.02
"""It is expected that calls cost at least this part of an estimate."""


class Pace:
    """The pace of a ledger, which sets `capacity` and `period`. Not thread-safe."""

    def __init__(self, capacity: float, period: float, burst: float) -> None:
        """`burst`: the part of the capacity that may go without a pause after a rest."""
        self.capacity = capacity
        self.period = period
        self.even_burst = burst
        """The part of the capacity that may go without a pause after a rest."""
        self._uneven_until = -math.inf
        self._uneven = self.uneven_burst
        self._paid_until = -math.inf
        self._likely = 1.0
        """The part of their estimates that calls have cost lately."""
        self._likely_until = self._looked_at = -math.inf

    @property
    def rate(self) -> float:
        """The capacity of a second."""
        return self.capacity / self.period

    def burst(self, now: float) -> float:
        """Return what may go without a pause after a rest."""
        return self.capacity * (self._uneven if now < self._uneven_until else self.even_burst)

    @property
    def uneven_burst(self) -> float:
        """The part of the capacity that may go without a pause, at least, after it has changed
        hands."""
        return min(1.0, round(UNEVEN * self.even_burst, 12))  # 0.3 of 0.1, without an error

    def changed_hands(self, peak: float, now: float) -> None:
        """Note that a part of the capacity came from others, or went to them. `peak` is the largest
        part of the capacity that others spent at one time: so much room comes back at one time."""
        before = self._uneven if now < self._uneven_until else self.uneven_burst
        self._uneven = min(1.0, max(before, peak))
        self._uneven_until = now + UNEVEN_PERIODS * self.period

    def look(self, now: float) -> None:
        """Note the time: callers call it before they read anything."""
        if self._likely != 1.0 and now >= self._likely_until:
            self._likely = 1.0  # after a rest, the burst is that of estimates
        self._looked_at = now

    def available(self, at: float, at_least: float) -> float:
        """Return what may go at this time."""
        most = max(self.burst(at), at_least * self._likely)
        return min((at - self._paid_until) * self.rate, most) / self._likely

    def ready_at(self, cost: float) -> float:
        """Return the earliest time at which `cost` may go."""
        return self._paid_until + cost * self._likely / self.rate

    def note(self, entry: BudgetEntry) -> None:
        """Note that `entry` was charged."""
        entry.paced = cost = entry.cost * self._likely
        if cost and self.capacity:  # it may have gone since the amount was set aside
            earliest = entry.charged_at - max(self.burst(entry.charged_at), cost) / self.rate
            self._paid_until = max(self._paid_until, earliest) + cost / self.rate

    def correct(self, entry: BudgetEntry, counts: float, stayed: float, now: float) -> None:
        """Note that `entry`, of which so much has stayed, has another cost. One that turned out
        larger keeps what follows from coming now, and no longer: the window sees to the rest."""
        change = counts - entry.paced
        if entry.state is OPEN and change < 0:
            return
        entry.paced = counts
        if self.capacity and change:
            paid_until = self._paid_until + change * stayed / self.rate
            late = change > 0 and paid_until > now
            self._paid_until = max(self._paid_until, now) if late else paid_until

    def learn(self, estimated: float, counted: float, seconds: float) -> None:
        """Note that calls which were `estimated` at this were counted as that: it is known for so
        many seconds which part of their estimates calls have cost."""
        self._likely_until = self._looked_at + seconds
        weight = min(1.0, estimated / self.capacity) if self.capacity else 1.0
        self._likely += (counted / estimated - self._likely) * weight
        if self._likely < LEAST_LIKELY:
            self._likely = LEAST_LIKELY
