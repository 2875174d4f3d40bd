"""One deal with a SharedResource."""

from __future__ import annotations

import threading

from limiters._budgets.purse import Parts, Purse
from limiters._budgets.window import Spend, Tenure
from limiters._support.clock import Clock
from limiters._support.float_error import covers


class SharedGrant:
    """What was set aside of a purse, for the one thread that asked for it.

    It keeps the purse and the tenure under which it was made: by the time it is spent, its
    limiter may hold something else.
    """

    def __init__(
        self, lock: threading.RLock, clock: Clock, purse: Purse, tenure: Tenure, parts: Parts
    ) -> None:
        self.amount = sum(parts)
        self._lock = lock
        self._clock = clock
        self._purse = purse
        self._tenure = tenure
        self._parts = parts

    def fits(self, cost: float) -> bool:
        """Whether all of `cost` was granted."""
        return covers(self.amount, cost)

    def spend(self, cost: float) -> Spend:
        """Charges `cost` of it for a batch that is about to start; what is reserved first."""
        paying = self._parts.paying(cost)
        self._parts = self._parts.less(paying)
        with self._lock:
            return self._purse.charge(paying, self._clock.now(), self._tenure)

    def close(self) -> None:
        """Gives back what was not spent."""
        parts, self._parts = self._parts, Parts()
        with self._lock:
            self._purse.release(parts)
