"""Two budgets that are spent together: what is reserved, and what is shared. Pure.

What is reserved goes first: it is there in any case, and what is shared may be of use to others.
"""

from __future__ import annotations

from limiters.float_error import covers
from limiters.window import Spend, Tenure, WindowLedger

GRAIN = 1e-4
"""The share of a period to which it is known when an amount will be there."""


class SpendOfBoth(Spend):
    """One batch, charged to both."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: Spend) -> None:
        super().__init__(sum(part.cost for part in parts), parts[0].charged_at)
        self._parts = parts

    def may_start(self, now: float) -> bool:
        """Whether the capacity of both is still held."""
        return all(part.may_start(now) for part in self._parts)

    def started(self, now: float) -> bool:
        """The callback begins now, unless this says no."""
        if not self.may_start(now):
            self.cancel()
            return False
        for part in self._parts:
            part.started(now)
        self.started_at = now
        return True

    def cancel(self) -> None:
        """The batch was never started: it stops counting."""
        for part in self._parts:
            part.cancel()


class Purse:
    """Both ledgers as one. Not thread-safe.

    >>> purse = Purse(WindowLedger(100, 1.0), WindowLedger(1000, 1.0))
    >>> purse.available(now=0.0, at_least=500)
    (100.0, 400.0)
    """

    def __init__(self, reserved: WindowLedger, shared: WindowLedger) -> None:
        self.reserved = reserved
        self.shared = shared

    @property
    def capacity(self) -> float:
        """What both are worth."""
        return self.reserved.capacity + self.shared.capacity

    def burst(self, now: float) -> float:
        """What may go at once after a rest."""
        return self.reserved.burst(now) + self.shared.burst(now)

    def available(self, now: float, at_least: float = 0.0) -> tuple[float, float]:
        """What may be charged now, to each of them."""
        reserved = self.reserved.available(now, at_least)
        return reserved, self.shared.available(now, max(0.0, at_least - reserved))

    def hold(self, reserved: float, shared: float) -> None:
        """Sets amounts aside for charges to come."""
        self.reserved.hold(reserved)
        self.shared.hold(shared)

    def release(self, reserved: float, shared: float) -> None:
        """Gives back what was held and not charged."""
        self.reserved.release(reserved)
        self.shared.release(shared)

    def charge(self, reserved: float, shared: float, now: float, tenure: Tenure) -> Spend:
        """Turns what is held into one that counts from now on."""
        if not shared:
            return self.reserved.charge(reserved, now)
        of_shared = self.shared.charge(shared, now, tenure)
        if not reserved:
            return of_shared
        return SpendOfBoth(self.reserved.charge(reserved, now), of_shared)

    def spend(self, cost: float, now: float) -> None:
        """Counts `cost`, which is available, as begun now; what is reserved goes first."""
        reserved = min(cost, self.reserved.available(now, cost))
        if reserved:
            self.reserved.spend(reserved, now)
        if cost > reserved:
            self.shared.spend(cost - reserved, now)

    def ready_at(self, cost: float, now: float) -> float:
        """The earliest time at which `cost` may be available, as far as is known now."""
        if not self.shared.capacity:
            return self.reserved.ready_at(cost, now)
        if not self.reserved.capacity:
            return self.shared.ready_at(cost, now)
        reserved, shared = self.reserved.outlook(now), self.shared.outlook(now)

        def there(at: float) -> bool:
            first = reserved(at, cost)
            return covers(first + shared(at, max(0.0, cost - first)), cost)

        if there(now):
            return now
        # Both only grow while nothing is spent, and after a period all has come that will. As a
        # rule it is soon: the step is doubled until it is too long.
        grain = self.shared.period * GRAIN
        early, step = now, grain
        while step < self.shared.period and not there(now + step):
            early, step = now + step, 2 * step
        late = now + min(step, self.shared.period)
        while late - early > grain:
            middle = (early + late) / 2
            early, late = (early, middle) if there(middle) else (middle, late)
        return late
