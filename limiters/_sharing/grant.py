"""One deal with a SharedResource."""

from __future__ import annotations

import threading

from limiters._budgets.several import AnyParts, AnyPurse
from limiters._budgets.spend import Spend, Tenure
from limiters._costs import AnyCost, is_covered
from limiters._support.clock import Clock


class SharedGrant:
    """What was set aside of a purse, for the one thread that asked for it.

    It keeps the purse and the tenure under which it was made: by the time it is spent, its
    limiter may hold something else.
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
        """Charges `cost` of it for a batch that is about to start; what is reserved first."""
        paying = self._parts.paying(cost)
        self._parts = self._parts.less(paying)
        with self._lock:
            return self._purse.charge(paying, self._clock.now(), self._tenure)

    def close(self) -> None:
        """Gives back what was not spent."""
        parts, self._parts = self._parts, self._parts.less(self._parts)
        with self._lock:
            self._purse.release(parts)
