"""The cost that the limiter could ever allow: operations above it are refused or fail."""

from __future__ import annotations

import math

from dispatcher._core.batches.end import BatchEnd
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.lanes import Lanes
from dispatcher.errors import TooExpensiveError
from dispatcher.operation import one_cost
from limiters._support.float_error import ALL_BUT_ERROR, covers
from limiters.limiter import RateLimiter


class CostCeiling:
    """Owned by the engine. Follows `max_capacity`, which may change at run time (law C9)."""

    def __init__(
        self, limiter: RateLimiter | None, buffer: Buffer, lanes: Lanes, batch_end: BatchEnd
    ) -> None:
        self._limiter = limiter
        self._buffer = buffer
        self._lanes = lanes
        self._batch_end = batch_end
        self._ceiling = math.inf if limiter is None else limiter.max_capacity
        buffer.admit_up_to(self._ceiling)

    def covers(self, cost: float) -> bool:
        """Whether the limiter could ever grant `cost`."""
        return covers(self._ceiling, cost)

    def follow(self, now: float) -> None:
        """Adopts the limiter's present maximum."""
        limiter = self._limiter
        if limiter is not None and limiter.max_capacity != self._ceiling:
            self._ceiling = limiter.max_capacity
            self._buffer.admit_up_to(self._ceiling)
            self.refuse_oversized(now)

    def refuse_oversized(self, now: float) -> None:
        """Operations that could never go out any more fail, rather than block what follows."""
        ceiling = self._ceiling
        for lane in self._lanes:
            oversized = self._lanes.withdraw(lane, ceiling / ALL_BUT_ERROR)
            if oversized:
                error = TooExpensiveError(max(map(one_cost, oversized)), ceiling)
                self._batch_end.fail(now, lane, oversized, error)
