"""One deal with a SharedResource."""

from __future__ import annotations

import threading

from limiters.clock import Clock
from limiters.float_error import covers
from limiters.purse import Purse
from limiters.window import Spend, Tenure


class SharedGrant:
    """What was set aside of a purse, for the one thread that asked for it.

    It keeps the purse and the tenure under which it was made: by the time it is spent, its
    limiter may hold something else.
    """

    def __init__(
        self,
        lock: threading.RLock,
        clock: Clock,
        purse: Purse,
        tenure: Tenure,
        *,
        reserved: float,
        shared: float,
    ) -> None:
        self.amount = reserved + shared
        self._lock = lock
        self._clock = clock
        self._purse = purse
        self._tenure = tenure
        self._reserved = reserved
        self._shared = shared

    def spend(self, cost: float) -> Spend:
        """Charges `cost` of it for a batch that is about to start; what is reserved first.

        A lease may end before the batch starts. So nothing is charged to what is shared, not
        even the error of a sum, where what is reserved covers it, or nothing else was granted.
        """
        alone = not self._shared or covers(self._reserved, cost)
        reserved = cost if alone else self._reserved
        shared = cost - reserved
        self._reserved -= reserved
        self._shared -= shared
        with self._lock:
            return self._purse.charge(reserved, shared, self._clock.now(), self._tenure)

    def close(self) -> None:
        """Gives back what was not spent."""
        reserved, self._reserved = self._reserved, 0.0
        shared, self._shared = self._shared, 0.0
        with self._lock:
            self._purse.release(reserved, shared)
