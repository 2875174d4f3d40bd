"""The leasing thread: lease due messages and enqueue them as operations, as many as the Batcher can
use soon."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from dispatcher.batcher import Batcher
from dispatcher.errors import BatcherStoppedError, TooExpensiveError
from dispatcher.operation import Operation
from dispatcher.timeline import Leases, TimelineUnavailableError
from dispatcher.worker._environment import WorkerEnvironment
from dispatcher.worker._handler_calls import Calls
from dispatcher.worker._intake import Intake
from dispatcher.worker._log_words import counted
from dispatcher.worker._messages import Held
from dispatcher.worker._room import View, claim, to_lease
from dispatcher.worker._settling import Settler
from limiters._costs import AnyCost
from limiters.limiter import Ending

logger = logging.getLogger("dispatcher.worker")


class Leasing:
    """Leases messages for one worker. `is_running` returns whether it may go on; `comes_back` is
    whether its consumer may have earlier leases."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        batcher: Batcher,
        settler: Settler,
        calls: Calls,
        intake: Intake,
        *,
        comes_back: bool,
        is_running: Callable[[], bool],
    ) -> None:
        self._consumer = environment.consumer
        self._batcher = batcher
        self._limiter = batcher.rate_limiter
        self._holds = environment.holds
        self._settler = settler
        self._calls = calls
        self._intake = intake
        self._totals = environment.totals
        self._topic = environment.timeline.topic
        self._outage = environment.outage(logger)
        self._slots = environment.concurrency
        self._batch_size = environment.batch_size
        self._lease_time = environment.lease_time
        self._comes_back = comes_back
        self._is_running = is_running
        self._failed = environment.failed
        self._wake_up: Ending | None = None
        self._thread = threading.Thread(target=self._run, name="worker-lease", daemon=True)
        self.beat = time.monotonic()
        """When the thread last gave a sign of life."""

    def start(self) -> None:
        if self._limiter is not None:
            self._wake_up = self._limiter.add_wake_up(self._consumer.look_again)
        self.beat = time.monotonic()
        self._thread.start()

    def close(self) -> None:
        """Stop leasing, and demand nothing more of the limiter. Waits only until Redis is
        notified."""
        self._demand(0)
        self._consumer.close()

    def await_ended(self, timeout: float) -> None:
        """Wait for the thread's end after `close`, for at most `timeout` seconds."""
        self._thread.join(timeout)
        if self._wake_up is not None:
            self._wake_up.end()

    # Runs on its thread.

    def _run(self) -> None:
        try:
            if self._comes_back:
                self._take_back()
            self._consumer.subscribe(self._take, limit=self._room, for_=self._lease_time)
        except BaseException as error:
            self._failed(error)
        finally:  # it may have demanded something while it was closed
            self._demand(0)

    def _demand(self, cost: AnyCost) -> None:
        if self._limiter is not None:
            self._limiter.give_me(self._limiter.limits.in_whole_slots(cost), self)

    def _take_back(self) -> None:
        """Release the leases from before a restart: the messages are due immediately."""
        asked = time.monotonic()
        try:
            mine = self._consumer.active()
            if mine:
                self._consumer.release(mine, delay=0)
                logger.info(
                    "%r handles %s again, which it had before a restart",
                    *(self._consumer, counted(len(mine))),
                    extra={
                        "happening": "worker-resumes",
                        "topic": self._topic,
                        "messages": len(mine),
                    },
                )
        except TimelineUnavailableError as error:
            text = "messages that %r had before a restart are due when their leases end: %s"
            self._outage.began(error, asked, text, self._consumer, error)

    @property
    def shut_out(self) -> bool:
        """Whether there will be no capacity any more: evicted, and nothing is reserved."""
        limiter = self._limiter
        return limiter is not None and limiter.evicted and not limiter.capacity

    def _room(self) -> int:
        self.beat = time.monotonic()
        if self.shut_out:
            self._settler.give_back(self._holds.withdraw())
            return 0
        view = self._view()
        room, demand = to_lease(view), claim(view)
        self._demand(demand)
        if demand and room:
            # Other workers may have taken the due messages: an empty answer ends the demand
            # immediately.
            self._consumer.look_again()
        return room

    def _view(self) -> View:
        limiter, slots = self._limiter, self._slots - self._holds.overdue
        if self._holds.stuck:
            slots = min(slots, 1)  # to see whether a call begins again
        if not self._is_running() or self._batcher.state != "running":
            self._check_batcher()
            slots = 0
        capacity = None if limiter is None else limiter.capacity
        return View(
            slots=slots,
            running=self._holds.running,
            batch_size=self._batch_size,
            waiting=self._holds.waiting,
            settling=self._holds.settling,
            batch_time=self._calls.batch_time,
            capacity=capacity,
            speed=math.inf if limiter is None else limiter.limits.speed(capacity),
            mean_cost=self._intake.mean_cost,
            batch_cost=self._intake.batch_cost,
            due=self._consumer.due,
        )

    def _check_batcher(self) -> None:
        if self._is_running() and self._batcher.state == "stopped":
            raise RuntimeError("the Batcher has ended by itself; its log says why")

    def _take(self, leases: Leases) -> None:
        """Pass leases on. `subscribe` logs any error and goes on, but an error of this code ends
        the worker."""
        try:
            self._admit(leases)
        except BaseException as error:
            self._failed(error)

    def _admit(self, leases: Leases) -> None:
        self._totals.add(leased=len(leases))
        held = self._holds.admit(leases, time.monotonic())
        if not held:
            self._settler.give_back([Held(lease) for lease in leases])
            return
        operations, refused = self._intake.operations(held)
        for one, error in refused:
            self._calls.refuse_for_cost(one, error)
        self._enqueue(operations)

    def _enqueue(self, operations: list[Operation]) -> None:
        if not operations:
            return
        try:
            self._batcher.enqueue_many(operations)
        except (BatcherStoppedError, TooExpensiveError) as error:
            # Stopping; or the limit was lowered in this very moment.
            if isinstance(error, BatcherStoppedError) and self._is_running():
                raise
            self._settler.give_back(self._holds.leave([one.payload for one in operations]))
