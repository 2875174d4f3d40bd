"""The grant of a SharedResource."""

from __future__ import annotations

import threading

from limiters._budgets.several import AnyParts, AnyPurse
from limiters._budgets.spend import Spend, Tenure
from limiters._costs import AnyCost, is_covered
from limiters._support.clock import Clock


class SharedGrant:
    """Capacity that was set aside, for the one thread that requested it.

    It keeps the purse and the tenure under which it was made, since its limiter may have another
    share when it is spent.
    """

    def __init__(
        self, lock: threading.RLock, clock: Clock, purse: AnyPurse, tenure: Tenure, parts: AnyParts
    ) -> None:
        self.amount = parts.amount
        self._lock = lock
        self._clock = clock
        self._purse = purse
        self._tenure = tenure
        self._parts = parts

    def fits(self, cost: AnyCost) -> bool:
        """Whether all of `cost` was granted."""
        return is_covered(self.amount, cost)

    def spend(self, cost: AnyCost) -> Spend:
        """Charge `cost` of it for a batch that is about to start, reserved capacity first."""
        paying = self._parts.paying(cost)
        self._parts = self._parts.less(paying)
        with self._lock:
            return self._purse.charge(paying, self._clock.now(), self._tenure)

    def close(self) -> None:
        """Return the capacity that was not spent."""
        parts, self._parts = self._parts, self._parts.less(self._parts)
        with self._lock:
            self._purse.release(parts)
