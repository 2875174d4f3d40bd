"""The engine: takes in what arrives, raises what the plan says, says when to look again.

`turn(now)` reads no clock and sleeps nowhere, so that tests turn it by hand; the Batcher
turns it on a thread of its own. All of its state belongs to whoever turns it. Others reach
it in two ways: operations through the buffer's inbox, everything else as a `post`.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable
from typing import Any

from dispatcher import events
from dispatcher._core.batches.end import BatchEnd
from dispatcher._core.batches.executors import Runners
from dispatcher._core.batches.start import BatchStart
from dispatcher._core.demand import Demand
from dispatcher._core.flush_grid import FlushGrid
from dispatcher._core.observers import Observed
from dispatcher._core.open_work import OpenWork
from dispatcher._core.pause import Pause
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.chunk import ChunkRun
from dispatcher._core.queues.lane import Lane
from dispatcher._core.queues.lanes import LaneQueue, Lanes
from dispatcher._core.queues.planner import Allowance, Plan, Slots, Unlimited, plan
from dispatcher._core.settings import Settings
from dispatcher._core.waiters import DrainWaiter, Waiters
from dispatcher.errors import KeyComparisonError, TooExpensiveError
from dispatcher.operation import Operation, cost_of, key_of, one_cost
from dispatcher.watcher import Watcher
from limiters._support.float_error import ALL_BUT_ERROR, covers
from limiters._support.wake_signal import WakeSignal
from limiters.errors import LimiterStoppedError
from limiters.limiter import RateLimiter

_log = logging.getLogger("dispatcher.batcher")

SHORTEST_WAIT = 0.001
"""The soonest to look again for budget."""


class Engine:
    """See the module. One per Batcher."""

    def __init__(
        self,
        settings: Settings,
        buffer: Buffer,
        bell: WakeSignal,
        *,
        pause: Pause,
        limiter: RateLimiter | None,
        runners: Runners,
        emit: Callable[..., None],
        clock: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.buffer = buffer
        self.bell = bell
        self.pause = pause
        self.limiter = limiter
        self.runners = runners
        self.emit = emit
        self.books = OpenWork(buffer)
        self.lanes = Lanes()
        self.observed = Observed()
        self.endings = BatchEnd(
            self.books,
            buffer,
            self.lanes,
            pause=self.begin_pause,
            succeeded=pause.succeeded,
            runners=runners,
            emit=emit,
            post=self.post,
            max_operation_time=settings.max_operation_time,
            clock=clock,
            observed=self.observed,
        )
        self.raising = BatchStart(
            self.books,
            buffer,
            self.lanes,
            self.endings,
            runners=runners,
            observed=self.observed,
            emit=emit if settings.emit_batch else None,
            clock=clock,
        )
        self.demand = Demand(
            limiter,
            self.lanes,
            self.books,
            interval=settings.capacity_interval,
            max_concurrent_batches=settings.max_concurrent_batches,
            claimant=self,
            emit=emit if settings.emit_request else None,
        )
        self._posts: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.finished = False
        """Whether it was stopped and nothing is in flight any more."""
        self._stopping = False
        self._waiters = Waiters(self.lanes)
        self._sending_out: float | None = None
        """Since when somebody waits for all to be sent who gives up when nothing can be."""
        self._unplaced: list[tuple[Lane, Operation, Exception]] = []
        """Came in, and has no place in its lane."""

        self._begun = False
        self._ceiling = math.inf if limiter is None else limiter.max_capacity
        buffer.admit_up_to(self._ceiling)
        self._grid = FlushGrid(settings.flush_interval)
        self._newest = -1
        self._due: float = -1
        """The last ticket that need not wait for company."""
        self._flush_asked = False
        self._wanted: float | None = None
        """The cost that the next batch waits for, if it waits for budget."""
        self._crowded = False
        """Whether something waits for a slot."""
        self._next_audit = math.inf
        self._limiter_runs = False
        """Whether the limiter was started: then it has to run for as long as this does."""

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Has `function(now, *arguments)` called in the next turn. From any thread."""
        self._posts.append((function, arguments))
        self.bell.ring()

    def turn(self, now: float) -> float:
        """Does what is due; when to turn again, at the latest."""
        if not self._begun:
            self._begun = True
            self._grid.begin(now)
            self._next_audit = now + self.settings.audit_interval
        posts = [self._posts.popleft() for _ in range(len(self._posts))]
        waited = self.books.waiting > 0
        self._absorb()
        self._fail_unplaced(now)
        if self.observed.observers:
            self.observed.came_in(self._newest, waited, now)
        for function, arguments in posts:
            function(now, *arguments)
        if self.pause.over(now):
            self.end_pause(now)
        self.endings.tend(now)
        self._follow_limiter(now)
        if self.pause.until is None:
            self._flush(now)
            if self.buffer.line:
                self._refuse_who_waits_for_itself()
            self.demand.tend(now)
            self._audit(now)
        self._tell(now)
        return now if self.finished else self._next_turn(now)

    def limiter_runs(self) -> None:
        """The limiter was started, before the first turn: when it is stopped, all of this stops."""
        self._limiter_runs = True

    # What can be posted.

    def look(self, now: float) -> None:
        """Something outside has changed: capacity may have come."""

    def flush(self, now: float) -> None:
        """Nothing that waits now waits for company any longer."""
        self._flush_asked = True

    def begin_pause(self, now: float, length: float | None = None) -> None:
        """Raises nothing and asks for nothing, for `length` or the pause time."""
        paused = self.pause.begin(now, length)
        if paused is not None:
            self.books.totals.pauses += 1
            self.emit(events.PAUSE, paused)
            self.demand.nothing()

    def end_pause(self, now: float) -> None:
        """Goes on, if there was a pause."""
        lasted = self.pause.end(now)
        if lasted is not None:
            self.emit(events.RESUME, lasted)

    def await_drained(self, now: float, waiter: DrainWaiter) -> None:
        """Tells `waiter` when nothing is left. Until then nothing waits for company."""
        self._waiters.drains.append(waiter)

    def send_out(self, now: float, waiter: DrainWaiter) -> None:
        """`await_drained`, for at most as long as something can be sent."""
        self._sending_out = max(now, self._sending_out or now)
        self.await_drained(now, waiter)

    def await_idle(self, now: float, waiter: DrainWaiter, watcher: Watcher) -> None:
        """Tells `waiter` when nothing of `watcher` is left."""
        self._waiters.add_idler(waiter, watcher)

    def pause_and_tell(self, now: float, waiter: DrainWaiter, length: float | None) -> None:
        """Pauses, and tells `waiter`: from now on nothing is raised."""
        self.begin_pause(now, length)
        waiter.tell()

    def stop(self, now: float) -> None:
        """Gives back what is not in flight, and finishes when nothing is. Again is no error."""
        self.end_pause(now)
        self.endings.give_back()
        self.demand.nothing()
        self._stopping = True
        self._sending_out = None

    def stop_and_tell(self, now: float, waiter: DrainWaiter) -> None:
        """Stops, and tells `waiter`: what was not sent is given back."""
        self.stop(now)
        waiter.tell()

    def give_back(self) -> None:
        """After the last turn: what came in since, or was left by a turn that raised."""
        self._absorb()
        self.endings.give_back([operation for _, operation, _ in self._unplaced])
        self.buffer.end()

    def close(self) -> None:
        """Nothing turns any more: whoever still waits has nothing to wait for."""
        for _, arguments in self._posts:
            if arguments and isinstance(arguments[0], DrainWaiter):
                arguments[0].tell()
        self._waiters.close()
        self.runners.close()

    # Coming in.

    def _absorb(self) -> None:
        if not self.buffer.inbox and not self.buffer.line:
            return
        touched: dict[Lane, None] = {}
        ordered: list[Operation] = []
        cost: float = 0
        came = count = 0
        with self.books.changing:
            for run in self.buffer.take():
                came += len(run.operations)
                taken = self._ticketed(run)
                count += len(taken)
                cost += cost_of(taken)
                ordered += self._sort(taken, touched, plain=run.plain)
            self.books.target += cost
            self.books.waiting += count
        if came > count:
            self.buffer.leave(came - count)
        self.lanes.ready_cost += cost
        for operation in ordered:  # outside of that: keys are compared by user code
            self._admit(operation, touched)
        for lane in touched:
            self.lanes.queue(lane)

    def _ticketed(self, run: ChunkRun) -> list[Operation]:
        """Those of `run` whose claim is valid: from now on they are ours."""
        claim = run.claim
        void = 0
        first = self._newest + 1
        for ticket, operation in enumerate(run.operations, first):
            if operation._where is claim:  # one step with the next line
                operation._where = ticket
            else:
                void += 1
        self._newest += len(run.operations)
        if not void:
            return run.operations
        return [one for ticket, one in enumerate(run.operations, first) if one._where == ticket]

    def _sort(
        self, operations: list[Operation], touched: dict[Lane, None], *, plain: bool
    ) -> list[Operation]:
        """Puts those into their lanes that need no more than a place at the end; the others."""
        limited = self.limiter is not None
        if plain and operations and not (limited and not all(map(one_cost, operations))):
            assert operations[0]._watcher is not None
            lane = self.lanes.of(operations[0]._watcher)
            touched[lane] = None
            lane.plain.extend(operations)
            return []
        ordered: list[Operation] = []
        watcher: Watcher | None = None
        for operation in operations:
            if (
                operation._order is None
                and operation._batchable
                and (operation._cost or not limited)
            ):
                if operation._watcher is not watcher:
                    assert operation._watcher is not None
                    watcher = operation._watcher
                    lane = self.lanes.of(watcher)
                    touched[lane] = None
                    append = lane.plain.append
                append(operation)
            else:
                ordered.append(operation)
        return ordered

    def _admit(self, operation: Operation, touched: dict[Lane, None]) -> None:
        assert operation._watcher is not None
        # With a key it keeps its place behind others of its key, whatever those cost.
        free = self.limiter is not None and not operation._cost and key_of(operation) is None
        lane = self.lanes.of(operation._watcher, free=free)
        try:
            lane.admit(operation)
        except BaseException as raised:  # also sys.exit(): it ends no thread of the Batcher
            error = KeyComparisonError()
            error.__cause__ = raised
            self.lanes.ready_cost -= operation._cost
            self._unplaced.append((lane, operation, error))
        touched[lane] = None

    def _fail_unplaced(self, now: float) -> None:
        """Operations whose key cannot be compared fail, and no others."""
        unplaced, self._unplaced = self._unplaced, []
        for lane, operation, error in unplaced:
            self.endings.fail(now, lane, [operation], error)

    # Going out.

    def _flush(self, now: float) -> None:
        gathering, self._wanted = self._wanted or 0.0, None
        self._crowded = False
        tick = self._grid.due(now)
        asked, self._flush_asked = self._flush_asked, False
        full = self.books.waiting >= self.buffer.size
        if tick or asked or full or self._waiters.drains:
            self._due = self._newest
        if not (self.lanes.ready or asked):
            return
        announced = self.settings.emit_flush and (tick or asked or full)
        if announced:
            self.emit(events.FLUSH_START)
        raised = self._raise_planned(now, gathering)
        if announced:
            self.emit(events.FLUSH_DONE, raised)

    def _raise_planned(self, now: float, gathering: float) -> int:
        most = self.settings.max_concurrent_batches
        free = math.inf if most is None else most - len(self.books.inflight)
        slots = Slots(free, self.runners.threads_left)
        raised = 0
        for queue in self.lanes.in_order():
            if self.limiter is None or queue is self.lanes.free:
                planned = plan(queue, Unlimited(), slots, self._due)
                self.raising.carry_out(now, planned, None)
            else:
                planned = self._plan_within(self.limiter, queue, slots, gathering, now)
            self._crowded = self._crowded or planned.crowded
            raised += len(planned.batches)
        return raised

    def _plan_within(
        self, limiter: RateLimiter, queue: LaneQueue, slots: Slots, gathering: float, now: float
    ) -> Plan:
        # What it waited for is asked for in full: the sum of all costs may be off by a little.
        ready = max(self.lanes.ready_cost, gathering)
        grant = limiter.grant(ready, gathering, self)
        limit = math.inf if covers(grant.amount, ready) else limiter.capacity
        try:
            budget = Allowance(grant.amount, limiter.burst, limit)
            planned = plan(queue, budget, slots, self._due)
            self.raising.carry_out(now, planned, grant)
        finally:
            grant.close()
        self._wanted = planned.wanted
        if self._wanted is not None and not covers(self._ceiling, self._wanted):
            self._refuse_oversized(now)
        return planned

    def _refuse_who_waits_for_itself(self) -> None:
        """Callbacks that wait for a place hold slots and keys, and keys also once their batch was
        abandoned. If all that run do so, and nothing else can be raised, no place would ever
        become free."""
        running = self.books.inflight | self.endings.abandoned
        if running and (self._crowded or not self.lanes.ready):
            waiting = self.buffer.callbacks_outside()
            if running <= waiting:
                self.buffer.refuse(running)

    # The limiter.

    def _follow_limiter(self, now: float) -> None:
        limiter = self.limiter
        if limiter is None:
            return
        if self._limiter_runs and not limiter.started and not self._stopping:
            self._stop_with_limiter(now, limiter)
        if limiter.max_capacity != self._ceiling:
            self._ceiling = limiter.max_capacity
            self.buffer.admit_up_to(self._ceiling)
            self._refuse_oversized(now)

    def _stop_with_limiter(self, now: float, limiter: RateLimiter) -> None:
        """Nothing that waits would ever be granted: stop() gives it back, rather than hang."""
        error = LimiterStoppedError(
            f"{limiter!r} was stopped while a Batcher used it, and the Batcher stops with it: stop "
            "the Batcher first, then its limiter"
        )
        self.buffer.close()
        self.stop(now)
        _log.error("%s", error, extra={"happening": "limiter-stopped"})
        self.emit(events.ERROR, 0, str(error), error)

    def _refuse_oversized(self, now: float) -> None:
        """What could never go out any more fails, rather than block what is behind it."""
        ceiling = self._ceiling
        for lane in self.lanes:
            oversized = self.lanes.withdraw(lane, ceiling / ALL_BUT_ERROR)
            if oversized:
                error = TooExpensiveError(max(map(one_cost, oversized)), ceiling)
                self.endings.fail(now, lane, oversized, error)

    # The rest of a turn.

    def _audit(self, now: float) -> None:
        if now < self._next_audit:
            return
        self._next_audit = now + self.settings.audit_interval
        recent = now - self.raising.last < self.settings.max_operation_time
        finding = self.books.audit(busy=bool(self.books.waiting) or recent)
        if finding.message:
            facts = {"happening": "audit-failed"}
            _log.error("audit failed: %s", finding.message, extra=facts)
        self.emit(finding.event, 0, finding.message)

    def _stalls_at(self) -> float:
        """When sending out is given up, unless something is raised until then."""
        if self._sending_out is None:
            return math.inf
        return max(self._sending_out, self.raising.last) + self.settings.max_operation_time

    def _tell(self, now: float) -> None:
        self._waiters.tell_idlers()
        if not (self._waiters.drains or self._stopping):
            return
        books = self.books
        left = books.waiting or books.inflight or self.endings.pending or self.buffer.holds_more
        self.finished = self._stopping and not left
        if now >= self._stalls_at():
            self._sending_out, left = None, False
        self._waiters.tell_drains(drained=not left)

    def _next_turn(self, now: float) -> float:
        times = [self.endings.next_look(now), self._stalls_at()]
        company = math.inf
        if self.pause.until is not None:
            times.append(self.pause.until)
        else:
            times.append(self._next_audit)
            times.append(self.demand.next_look())
            if self._wanted is not None and self.limiter is not None:
                ready = self.limiter.ready_at(self._wanted)
                times.append(max(ready, now + SHORTEST_WAIT))
            elif not self._crowded:
                company = self.lanes.missing
            waits = bool(self.lanes.ready) and self._newest > self._due
            self._grid.schedule(now, waits=waits)
            times.append(self._grid.next)
        if not self.buffer.look_at(company):
            return now
        return min(times)
