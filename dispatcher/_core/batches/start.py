"""Starts planned batches: each is charged to its grant, counted, and handed to the runners.

Owned by the engine; nothing here is thread-safe.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial

from dispatcher import events
from dispatcher._core.batches.end import BatchEnd
from dispatcher._core.batches.executors import Job
from dispatcher._core.cost_terms import CostTerms
from dispatcher._core.environment import Environment
from dispatcher._core.open_work import OpenWork
from dispatcher._core.queues.batch import CURRENT, OperationBatch
from dispatcher._core.queues.lanes import Lanes
from dispatcher._core.queues.planner import Plan
from limiters._budgets.spend import Spend
from limiters.limiter import Grant


class BatchStart:
    def __init__(
        self,
        open_work: OpenWork,
        lanes: Lanes,
        batch_end: BatchEnd,
        costs: CostTerms,
        environment: Environment,
    ) -> None:
        self._open_work = open_work
        self._lanes = lanes
        self._batch_end = batch_end
        self._costs = costs
        self._runners = environment.runners
        self._observed = environment.observed
        self._emit = environment.emit if environment.options.emit_batch else None
        self._clock = environment.clock
        self.last = -math.inf
        """The time at which a batch was last raised."""

    def carry_out(self, now: float, plan: Plan, grant: Grant | None) -> None:
        """Raise the batches of `plan`, and charge them to `grant` if they need one."""
        if not plan.batches:
            return
        # If the process was suspended, the grant may be newer than the time at which this turn
        # began.
        now = max(now, self._clock())
        self.last = now
        leaving = sum(len(batch.operations) for batch in plan.batches)
        unraised = deque(plan.batches)
        try:
            while unraised:
                self._raise(now, unraised[0], grant)
                unraised.popleft()
        except BaseException:
            # A user's limiter has raised, which ends the Batcher: stop() gives these operations
            # back.
            for batch in unraised:
                batch.lane.put_back(batch.operations)
            raise
        if not self._open_work.waiting:
            self._lanes.ready_cost = 0
        # The places are freed once for all batches: otherwise each waiting caller would wake up now
        # and compete with this thread.
        self._open_work.leave_buffer(leaving)

    def _raise(self, now: float, batch: OperationBatch, grant: Grant | None) -> None:
        on_batch = batch.lane.terms.on_batch
        operations = batch.operations
        # A thread begins immediately; a coroutine begins when its loop is free, which may be too
        # late.
        starting: Callable[[], bool] | None = batch.may_begin if on_batch.on_loop else None
        if grant is not None and (cost := batch.whole_cost):
            batch.spend = grant.spend(cost)
            starting = partial(self._starting, batch, batch.spend)
        if self._observed.observers:
            self._observed.raised(batch, now)
        batch.raised_at = now
        batch.costs = self._costs
        self._batch_end.deadline_of(batch, now)
        self._lanes.ready_cost -= batch.cost
        self._open_work.start(batch)
        if self._emit is not None:
            self._emit(events.BATCH, len(operations), "", list(operations))
        batch.handed = list(operations)
        job = Job(
            on_batch.function,
            (batch.handed,),
            done=partial(self._batch_end.callback_ended, batch),
            starting=starting,
            context=(CURRENT, batch),
        )
        if self._runners.start(job, on_loop=on_batch.on_loop):
            self._open_work.totals.batches += 1
        else:
            self._batch_end.not_started(now, batch)

    def _starting(self, batch: OperationBatch, spend: Spend) -> bool:
        if batch.may_begin():
            return spend.started(self._clock())
        spend.cancel()
        return False
