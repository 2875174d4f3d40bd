"""Two budgets that are spent together: what is reserved, and what is shared. Pure.

What is reserved goes first: it is there in any case, and what is shared may be of use to others.
"""

from __future__ import annotations

from limiters.window import Spend, Tenure, WindowLedger


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
        """About when `cost` may be available: both refill at their own rates."""
        reserved, shared = self.available(now, cost)
        missing = cost - reserved - shared
        if missing <= 0 or not self.capacity:
            return now if missing <= 0 else now + self.reserved.period
        from_reserved = reserved + missing * self.reserved.capacity / self.capacity
        # Neither gives more than it has: what it cannot, the other one does.
        from_reserved = min(from_reserved, self.reserved.capacity)
        from_reserved = max(from_reserved, cost - self.shared.capacity)
        ready = now
        if from_reserved > 0 and self.reserved.capacity:
            ready = self.reserved.ready_at(from_reserved, now)
        if self.shared.capacity:
            ready = max(ready, self.shared.ready_at(cost - from_reserved, now))
        return ready
