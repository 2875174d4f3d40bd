"""Asks the limiter for the cost that can be spent now, and for no more than can be used."""

from __future__ import annotations

import math

from dispatcher import events
from dispatcher._core.cost_terms import CostTerms
from dispatcher._core.environment import Environment
from dispatcher._core.open_work import OpenWork
from dispatcher._core.queues.lanes import Lanes
from limiters._costs import AnyCost, Costs, greater, lesser
from limiters._support.validation import in_seconds
from limiters.limiter import RateLimiter


class Demand:
    """Asks the limiter immediately when operations begin to wait, then every `interval`, and a last
    time when nothing is left. It asks for nothing while nothing waits. A limiter that several
    Batchers share also uses this object to distinguish them."""

    def __init__(
        self,
        limiter: RateLimiter | None,
        costs: CostTerms,
        lanes: Lanes,
        open_work: OpenWork,
        environment: Environment,
    ) -> None:
        self._limiter = limiter
        self._costs = costs
        self._lanes = lanes
        self._open_work = open_work
        options = environment.options
        self._interval = in_seconds(options.capacity_interval)
        self._most = options.max_concurrent_batches
        self._emit = environment.emit if options.emit_request else None
        self._asked: AnyCost = 0
        self._next = -math.inf

    def run_due(self, now: float) -> None:
        """Ask the limiter, if it is time."""
        if self._limiter is None or not (self._asked or self._open_work.waiting):
            return
        if now >= self._next or not self._asked:
            self._next = now + self._interval
            self._ask_for(self._usable())

    def nothing(self) -> None:
        """Ask for nothing until the next `run_due`."""
        self._ask_for(self._costs.nothing)

    def next_look(self) -> float:
        """Return the time at which `run_due` has something to do."""
        return self._next if self._asked else math.inf

    def _usable(self) -> AnyCost:
        """Return the uncharged cost that batches can use until the next request, so that slow
        callbacks do not hoard. Slots are requested only for calls that could begin now."""
        if not self._open_work.waiting:
            return self._costs.nothing
        if self._most is None:
            return self._cost_of_batches(math.inf)
        busy = len(self._open_work.inflight)
        free = max(0, self._most - busy)
        turns = self._interval / max(self._open_work.callback_seconds or self._interval, 1e-6)
        usable = self._cost_of_batches(free * max(1.0, turns) + busy * max(0.0, turns - 1))
        if isinstance(usable, Costs) and self._costs.in_flight:
            at_once = self._cost_of_batches(free)
            assert isinstance(at_once, Costs)
            slots = {name: math.ceil(at_once.amount(name)) for name in self._costs.in_flight}
            return Costs({**usable, **slots})
        return usable

    def _cost_of_batches(self, batches: float) -> AnyCost:
        """Return the cost of the waiting operations in at most so many batches."""
        if not batches:
            return self._costs.nothing
        lanes, waiting = self._lanes, self._open_work.waiting
        ready = lanes.ready_cost
        stuck = sum(lane.stuck_cost() for lane in lanes)
        usable = greater(self._costs.nothing, ready - stuck)
        if math.isfinite(batches) and usable:
            largest = max((lane.full for lane in lanes if len(lane)), default=1)
            usable = lesser(usable, ready * (batches * largest / waiting))
        return usable + lanes.batch_costs(batches) if lanes.paid else usable

    def _ask_for(self, cost: AnyCost) -> None:
        if self._limiter is None or (not cost and not self._asked):
            return
        self._asked = cost
        self._limiter.give_me(cost, self)
        if self._emit is None:
            return
        if isinstance(cost, Costs):
            self._emit(events.REQUEST, 0, "", cost)
        else:
            self._emit(events.REQUEST, cost)
