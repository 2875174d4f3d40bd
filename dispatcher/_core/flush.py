"""Sends batches in one turn: asks for a grant, has batches planned within it, and starts them."""

from __future__ import annotations

import math

from dispatcher import events
from dispatcher._core.batches.start import BatchStart
from dispatcher._core.ceiling import CostCeiling
from dispatcher._core.cost_terms import CostTerms
from dispatcher._core.demand import Demand
from dispatcher._core.environment import Environment
from dispatcher._core.flush_grid import FlushGrid
from dispatcher._core.open_work import OpenWork
from dispatcher._core.queues.budget import Allowance, Unlimited
from dispatcher._core.queues.budget_by_dimension import AllowanceByDimension
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.lanes import LaneQueue, Lanes
from dispatcher._core.queues.planner import Plan, Slots, plan
from limiters._costs import AnyCost, greater
from limiters._support.validation import in_seconds
from limiters.limiter import RateLimiter

SHORTEST_WAIT = 0.001
"""Minimum delay in seconds before the engine looks for budget again."""


class Flusher:
    """Plans and starts batches. Owned by the engine."""

    def __init__(
        self,
        environment: Environment,
        open_work: OpenWork,
        buffer: Buffer,
        lanes: Lanes,
        *,
        limiter: RateLimiter | None,
        costs: CostTerms,
        ceiling: CostCeiling,
        demand: Demand,
        batch_start: BatchStart,
    ) -> None:
        options = environment.options
        self._runners = environment.runners
        self._emit = environment.emit
        self._open_work = open_work
        self._buffer = buffer
        self._lanes = lanes
        self._limiter = limiter
        self._nothing = costs.nothing
        self._allowance_of = Allowance.of if costs.are_numbers else AllowanceByDimension.of
        self._ceiling = ceiling
        self._demand = demand
        self._batch_start = batch_start
        self._grid = FlushGrid(in_seconds(options.flush_interval))
        self._emit_flush = options.emit_flush
        self._most = options.max_concurrent_batches
        self._due: float = -1
        """Operations with a ticket up to this one are sent without waiting for a full batch."""
        self._wanted: AnyCost | None = None
        """The cost that the next batch waits for, if it waits for budget."""
        self.crowded = False
        """Whether something waits for a slot."""

    def begin(self, now: float) -> None:
        """Align the flush interval with the first turn."""
        self._grid.begin(now)

    def run_due(self, now: float, newest: int, *, asked: bool, draining: bool) -> None:
        """Start the batches that can be started. `newest`: the last ticket; `asked`: flush() was
        called; `draining`: no operation waits for a full batch now."""
        gathering, self._wanted = self._wanted or self._nothing, None
        self.crowded = False
        tick = self._grid.due(now)
        full = self._open_work.waiting >= self._buffer.size
        if tick or asked or full or draining:
            self._due = newest
        if not (self._lanes.ready or asked):
            return
        announced = self._emit_flush and (tick or asked or full)
        if announced:
            self._emit(events.FLUSH_START)
        raised = self._raise_planned(now, gathering)
        if announced:
            self._emit(events.FLUSH_DONE, raised)

    def next_look(self, now: float, newest: int) -> tuple[float, float]:
        """Return when `run_due` has something to do, and how many more operations in the inbox
        would change that."""
        ready, missing = math.inf, math.inf
        if self._wanted is not None and self._limiter is not None:
            ready = max(self._limiter.ready_at(self._wanted), now + SHORTEST_WAIT)
        elif not self.crowded:
            missing = self._lanes.missing
        waits = bool(self._lanes.ready) and newest > self._due
        self._grid.schedule(now, waits=waits)
        return min(ready, self._grid.next), missing

    def _raise_planned(self, now: float, gathering: AnyCost) -> int:
        free = math.inf if self._most is None else self._most - len(self._open_work.inflight)
        slots = Slots(free, self._runners.threads_left)
        raised = 0
        if self._lanes.learned:
            self._lanes.estimate_again()
        for queue in self._lanes.in_order():
            if self._limiter is None or queue is self._lanes.free:
                planned = plan(queue, Unlimited(), slots, self._due)
                self._batch_start.carry_out(now, planned, None)
            else:
                planned = self._plan_within(self._limiter, queue, slots, gathering, now)
            self.crowded = self.crowded or planned.crowded
            raised += len(planned.batches)
        return raised

    def _plan_within(
        self, limiter: RateLimiter, queue: LaneQueue, slots: Slots, gathering: AnyCost, now: float
    ) -> Plan:
        ready = self._lanes.ready_cost
        if self._lanes.paid:
            ready += self._lanes.batch_costs()
        if gathering:
            # Ask for all that the next batch waits for: the sum of all costs has a small float
            # error.
            ready = greater(ready, gathering)
        grant = limiter.grant(ready, gathering, self._demand)
        try:
            planned = plan(queue, self._allowance_of(grant, limiter, ready), slots, self._due)
            self._batch_start.carry_out(now, planned, grant)
        finally:
            grant.close()
        self._wanted = planned.wanted
        if self._wanted is not None and not self._ceiling.covers(self._wanted):
            self._ceiling.refuse_oversized(now)
        return planned
