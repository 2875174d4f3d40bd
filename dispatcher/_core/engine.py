"""The engine: takes in what arrives, raises what the plan says, says when to look again.

`turn(now)` reads no clock and sleeps nowhere, so that tests turn it by hand; the Batcher
turns it on a thread of its own. All of its state belongs to whoever turns it. Others reach
it in two ways: operations through the buffer's inbox, everything else as a `post`.
"""

from __future__ import annotations

import logging
import math

from dispatcher import events
from dispatcher._core.batches.end import BatchEnd
from dispatcher._core.batches.start import BatchStart
from dispatcher._core.ceiling import CostCeiling
from dispatcher._core.cost_terms import CostTerms
from dispatcher._core.demand import Demand
from dispatcher._core.environment import Environment
from dispatcher._core.flush import Flusher
from dispatcher._core.inbox_reader import InboxReader
from dispatcher._core.open_work import OpenWork
from dispatcher._core.pause import Pause
from dispatcher._core.pausing import Pausing
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.lanes import Lanes
from dispatcher._core.waiters import DrainWaiter, Waiters
from dispatcher.watcher import Watcher
from limiters._support.validation import in_seconds
from limiters.errors import LimiterStoppedError
from limiters.limiter import RateLimiter

_log = logging.getLogger("dispatcher.batcher")


class Engine:
    """See the module. One per Batcher."""

    def __init__(self, buffer: Buffer, environment: Environment) -> None:
        options = environment.options
        pause, limiter = Pause(options.pause_time), options.rate_limiter
        self.audit_interval = in_seconds(options.audit_interval)
        self._max_operation_time = in_seconds(options.max_operation_time)
        self.buffer = buffer
        self.limiter = limiter
        self.runners = environment.runners
        self.emit = environment.emit
        self.observed = environment.observed
        self.post = environment.mailbox.post
        self._mailbox = environment.mailbox
        # Each part is made of those above it; none knows the engine.
        self.costs = CostTerms(limiter)
        self.costs.check_longest_call(self._max_operation_time)
        self.open_work = OpenWork(buffer, self.costs.nothing)
        self.lanes = Lanes(self.costs.of_batch)
        self.demand = Demand(limiter, self.costs, self.lanes, self.open_work, environment)
        self.pausing = Pausing(pause, self.demand, self.open_work.totals, self.emit)
        self.batch_end = BatchEnd(self.open_work, self.lanes, self.pausing, environment)
        self._batch_start = BatchStart(
            self.open_work, self.lanes, self.batch_end, self.costs, environment
        )
        self._ceiling = CostCeiling(limiter, self.costs, buffer, self.lanes, self.batch_end)
        self._inbox = InboxReader(buffer, self.open_work, self.lanes, limited=limiter is not None)
        self._flusher = Flusher(
            environment,
            self.open_work,
            buffer,
            self.lanes,
            limiter=limiter,
            costs=self.costs,
            ceiling=self._ceiling,
            demand=self.demand,
            batch_start=self._batch_start,
        )
        self._waiters = Waiters(self.lanes)
        self.finished = False
        """Whether it was stopped and nothing is in flight any more."""
        self._stopping = False
        self._sending_out: float | None = None
        """Since when somebody waits for all to be sent who gives up when nothing can be."""
        self._begun = False
        self._flush_asked = False
        self._next_audit = math.inf
        self._limiter_runs = False
        """Whether the limiter was started: then it has to run for as long as this does."""

    def turn(self, now: float) -> float:
        """Does what is due; when to turn again, at the latest."""
        if not self._begun:
            self._begun = True
            self._flusher.begin(now)
            self._next_audit = now + self.audit_interval
        posts = self._mailbox.take()
        waited = self.open_work.waiting > 0
        self._inbox.absorb()
        self._fail_unplaced(now)
        if self.observed.observers:
            self.observed.came_in(self._inbox.newest, waited, now)
        for function, arguments in posts:
            function(now, *arguments)
        self.pausing.run_due(now)
        self.batch_end.tend(now)
        self._follow_limiter(now)
        if self.pausing.until is None:
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
        self.pausing.begin(now, length)
        waiter.tell()

    def stop(self, now: float) -> None:
        """Gives back what is not in flight, and finishes when nothing is. Idempotent."""
        self.pausing.end(now)
        self.batch_end.give_back()
        self.demand.nothing()
        self._stopping = True
        self._sending_out = None

    def stop_and_tell(self, now: float, waiter: DrainWaiter) -> None:
        """Stops, and tells `waiter`: what was not sent is given back."""
        self.stop(now)
        waiter.tell()

    def give_back(self) -> None:
        """After the last turn: what came in since, or was left by a turn that raised."""
        self._inbox.absorb()
        self.batch_end.give_back([operation for _, operation, _ in self._inbox.take_unplaced()])
        self.buffer.end()

    def close(self) -> None:
        """Nothing turns any more: whoever still waits has nothing to wait for."""
        for _, arguments in self._mailbox.take():
            if arguments and isinstance(arguments[0], DrainWaiter):
                arguments[0].tell()
        self._waiters.close()
        self.runners.close()

    # Coming in and going out.

    def _fail_unplaced(self, now: float) -> None:
        """Operations whose key cannot be compared fail, and no others."""
        for lane, operation, error in self._inbox.take_unplaced():
            self.batch_end.fail(now, lane, [operation], error)

    def _flush(self, now: float) -> None:
        asked, self._flush_asked = self._flush_asked, False
        draining = bool(self._waiters.drains)
        self._flusher.run_due(now, self._inbox.newest, asked=asked, draining=draining)

    def _refuse_who_waits_for_itself(self) -> None:
        """Callbacks that wait for a place hold slots and keys, and keys also once their batch was
        abandoned. If all that run do so, and nothing else can be raised, no place would ever
        become free."""
        running = self.open_work.inflight | self.batch_end.abandoned
        if running and (self._flusher.crowded or not self.lanes.ready):
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
        self._ceiling.follow(now)

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

    # The rest of a turn.

    def _audit(self, now: float) -> None:
        if now < self._next_audit:
            return
        self._next_audit = now + self.audit_interval
        recent = now - self._batch_start.last < self._max_operation_time
        finding = self.open_work.audit(busy=bool(self.open_work.waiting) or recent)
        if finding.message:
            facts = {"happening": "audit-failed"}
            _log.error("audit failed: %s", finding.message, extra=facts)
        self.emit(finding.event, 0, finding.message)

    def _stalls_at(self) -> float:
        """When sending out is given up, unless something is raised until then."""
        if self._sending_out is None:
            return math.inf
        return max(self._sending_out, self._batch_start.last) + self._max_operation_time

    def _tell(self, now: float) -> None:
        self._waiters.tell_idlers()
        if not (self._waiters.drains or self._stopping):
            return
        work = self.open_work
        left = work.waiting or work.inflight or self.batch_end.pending or self.buffer.holds_more
        self.finished = self._stopping and not left
        if now >= self._stalls_at():
            self._sending_out, left = None, False
        self._waiters.tell_drains(drained=not left)

    def _next_turn(self, now: float) -> float:
        times = [self.batch_end.next_look(now), self._stalls_at()]
        company = math.inf
        if self.pausing.until is not None:
            times.append(self.pausing.until)
        else:
            times.append(self._next_audit)
            times.append(self.demand.next_look())
            soonest, company = self._flusher.next_look(now, self._inbox.newest)
            times.append(soonest)
        if not self.buffer.look_at(company):
            return now
        return min(times)
