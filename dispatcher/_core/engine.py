"""The engine: takes in operations, raises batches as planned, and returns when to look again.

`turn(now)` reads no clock and never sleeps, so that tests can call it with any time; the Batcher
calls it on a thread of its own. All state belongs to the thread that calls `turn`. Other threads
reach it in two ways: operations through the buffer's inbox, everything else as a `post`.
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
    """The parts of one Batcher's engine, and the turns in which they work together."""

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
        # Each part receives some of those above it; none refers to the engine.
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
        """Whether the engine was stopped and nothing is in flight any more."""
        self._stopping = False
        self._sending_out: float | None = None
        """When a caller began to wait in `send_out`, which ends when nothing more can be sent."""
        self._begun = False
        self._flush_asked = False
        self._next_audit = math.inf
        self._limiter_runs = False
        """Whether the limiter was started: then it has to run for as long as the engine."""

    def turn(self, now: float) -> float:
        """Do what is due. Return when to turn again, at the latest."""
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
        self.batch_end.run_due(now)
        self._follow_limiter(now)
        if self.pausing.until is None:
            self._flush(now)
            if self.buffer.line:
                self._refuse_callers_that_wait_for_themselves()
            self.demand.run_due(now)
            self._audit(now)
        self._wake_waiters(now)
        return now if self.finished else self._next_turn(now)

    def limiter_runs(self) -> None:
        """Note that the limiter was started, before the first turn. If it is stopped, the engine
        stops."""
        self._limiter_runs = True

    # Calls that other threads post.

    def look(self, now: float) -> None:
        """Turn again, since something outside has changed, such as the capacity."""

    def flush(self, now: float) -> None:
        """Send all operations that wait now without waiting for full batches."""
        self._flush_asked = True

    def await_drained(self, now: float, waiter: DrainWaiter) -> None:
        """Wake `waiter` when nothing is left. Until then no operation waits for a full batch."""
        self._waiters.drains.append(waiter)

    def send_out(self, now: float, waiter: DrainWaiter) -> None:
        """Like `await_drained`, but only for as long as something can be sent."""
        self._sending_out = max(now, self._sending_out or now)
        self.await_drained(now, waiter)

    def await_idle(self, now: float, waiter: DrainWaiter, watcher: Watcher) -> None:
        """Wake `waiter` when nothing of `watcher` is left."""
        self._waiters.add_idler(waiter, watcher)

    def pause_and_wake(self, now: float, waiter: DrainWaiter, length: float | None) -> None:
        """Pause, then wake `waiter`: no batch is raised from then on."""
        self.pausing.begin(now, length)
        waiter.wake()

    def stop(self, now: float) -> None:
        """Give back all operations that are not in flight; finish when none is. Idempotent."""
        self.pausing.end(now)
        self.batch_end.give_back()
        self.demand.nothing()
        self._stopping = True
        self._sending_out = None

    def stop_and_wake(self, now: float, waiter: DrainWaiter) -> None:
        """Stop, then wake `waiter`: operations that were not sent have been given back."""
        self.stop(now)
        waiter.wake()

    def give_back(self) -> None:
        """Give back operations that came in after the last turn, or that a turn has left by
        raising."""
        self._inbox.absorb()
        self.batch_end.give_back([operation for _, operation, _ in self._inbox.take_unplaced()])
        self.buffer.end()

    def close(self) -> None:
        """Wake all callers that still wait, since there will be no more turns, and end the
        runners."""
        for _, arguments in self._mailbox.take():
            if arguments and isinstance(arguments[0], DrainWaiter):
                arguments[0].wake()
        self._waiters.close()
        self.runners.close()

    # Taking in and sending.

    def _fail_unplaced(self, now: float) -> None:
        """Fail operations whose key cannot be compared, and no others."""
        for lane, operation, error in self._inbox.take_unplaced():
            self.batch_end.fail(now, lane, [operation], error)

    def _flush(self, now: float) -> None:
        asked, self._flush_asked = self._flush_asked, False
        draining = bool(self._waiters.drains)
        self._flusher.run_due(now, self._inbox.newest, asked=asked, draining=draining)

    def _refuse_callers_that_wait_for_themselves(self) -> None:
        """Refuse callbacks that wait for a place in the buffer, if none could ever become free.

        Such callbacks hold slots and keys; they keep the keys even after their batch was abandoned.
        If all callbacks that run are waiting, and nothing else can be raised, they wait for
        themselves.
        """
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
        """Stop, since no waiting operation would ever be granted. stop() gives them back."""
        error = LimiterStoppedError(
            f"{limiter!r} was stopped while a Batcher used it, and the Batcher stops with it: stop "
            "the Batcher first, then its limiter"
        )
        self.buffer.close()
        self.stop(now)
        _log.error("%s", error, extra={"happening": "limiter-stopped"})
        self.emit(events.ERROR, 0, str(error), error)

    # Other parts of a turn.

    def _audit(self, now: float) -> None:
        if now < self._next_audit:
            return
        self._next_audit = now + self.audit_interval
        recent = now - self._batch_start.last < self._max_operation_time
        finding = self.open_work.audit(busy=bool(self.open_work.waiting) or recent)
        if finding.message:
            facts = {"happening": "audit-failed"}
            _log.error("audit failed: %s", finding.message, extra=facts)
        self.emit(finding.event, 0, finding.message, self.open_work.take_settled())

    def _stalls_at(self) -> float:
        """Return when `send_out` ends, unless a batch is raised before."""
        if self._sending_out is None:
            return math.inf
        return max(self._sending_out, self._batch_start.last) + self._max_operation_time

    def _wake_waiters(self, now: float) -> None:
        self._waiters.wake_idlers()
        if not (self._waiters.drains or self._stopping):
            return
        work = self.open_work
        left = work.waiting or work.inflight or self.batch_end.pending or self.buffer.holds_more
        self.finished = self._stopping and not left
        if now >= self._stalls_at():
            self._sending_out, left = None, False
        self._waiters.wake_drains(drained=not left)

    def _next_turn(self, now: float) -> float:
        times = [self.batch_end.next_look(now), self._stalls_at()]
        missing = math.inf
        if self.pausing.until is not None:
            times.append(self.pausing.until)
        else:
            times.append(self._next_audit)
            times.append(self.demand.next_look())
            soonest, missing = self._flusher.next_look(now, self._inbox.newest)
            times.append(soonest)
        if not self.buffer.look_at(missing):
            return now
        return min(times)
