"""What the limiter is told: how much could be spent, and no more than could be used."""

from __future__ import annotations

import math

from dispatcher import events
from dispatcher._core.environment import Environment
from dispatcher._core.open_work import OpenWork
from dispatcher._core.queues.lanes import Lanes
from limiters._support.validation import in_seconds
from limiters.limiter import RateLimiter


class Demand:
    """Tells the limiter at once when there is something to ask for, then every `interval`,
    and a last time when nothing is left. While nothing waits it is silent. It is also the
    claimant by which a limiter that several Batchers share tells them apart."""

    def __init__(
        self,
        limiter: RateLimiter | None,
        lanes: Lanes,
        open_work: OpenWork,
        environment: Environment,
    ) -> None:
        self._limiter = limiter
        self._lanes = lanes
        self._open_work = open_work
        options = environment.options
        self._interval = in_seconds(options.capacity_interval)
        self._most = options.max_concurrent_batches
        self._emit = environment.emit if options.emit_request else None
        self._asked: float = 0
        self._next = -math.inf

    def tend(self, now: float) -> None:
        """Asks, if it is time to."""
        if self._limiter is None or not (self._asked or self._open_work.waiting):
            return
        if now >= self._next or not self._asked:
            self._next = now + self._interval
            self._ask_for(self._usable())

    def nothing(self) -> None:
        """Asks for nothing, for now."""
        self._ask_for(0)

    def next_look(self) -> float:
        """When `tend` has something to do."""
        return self._next if self._asked else math.inf

    def _usable(self) -> float:
        """The uncharged cost that slots can use until we ask again: slow callbacks do not hoard."""
        if not self._open_work.waiting:
            return 0
        ready = self._lanes.ready_cost
        usable = max(0.0, ready - sum(lane.stuck_cost() for lane in self._lanes))
        if self._most is None or not usable:
            return usable
        busy = len(self._open_work.inflight)
        turns = self._interval / max(self._open_work.callback_seconds or self._interval, 1e-6)
        batches = max(0, self._most - busy) * max(1.0, turns) + busy * max(0.0, turns - 1)
        if not batches:
            return 0
        largest = max((lane.full for lane in self._lanes if len(lane)), default=1)
        return min(usable, batches * largest * ready / self._open_work.waiting)

    def _ask_for(self, cost: float) -> None:
        if self._limiter is None or (not cost and not self._asked):
            return
        self._asked = cost
        self._limiter.give_me(cost, self)
        if self._emit is not None:
            self._emit(events.REQUEST, cost)
