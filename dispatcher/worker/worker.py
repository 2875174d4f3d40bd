"""Worker: leases due messages from a Timeline, passes them through a Batcher to a handler, and
acknowledges them."""

from __future__ import annotations

import enum
import logging
import os
import secrets
import socket
import threading
import time
from types import TracebackType

from dispatcher._handler import load
from dispatcher._retry import RetryPolicy
from dispatcher.batcher import Batcher
from dispatcher.errors import ImproperOrderError
from dispatcher.learned import Learned
from dispatcher.timeline import ReleaseLease
from dispatcher.worker._costs import MessageCosts, normal_batch_cost
from dispatcher.worker._environment import WorkerEnvironment
from dispatcher.worker._handler_calls import Calls
from dispatcher.worker._intake import Intake
from dispatcher.worker._lease_keeper import Keeper
from dispatcher.worker._leasing import Leasing
from dispatcher.worker._log_words import counted, some_of
from dispatcher.worker._messages import Holds
from dispatcher.worker._options import WorkerArguments, WorkerOptions
from dispatcher.worker._settling import Settler
from dispatcher.worker.errors import WorkerFailedError
from dispatcher.worker.totals import WorkerTotals
from limiters._support.signatures import lists, takes
from limiters._support.validation import Seconds, optional_seconds, seconds
from limiters.shared import SharedResource

logger = logging.getLogger("dispatcher.worker")

LONGEST_SILENCE = 30.0
"""Seconds without a sign of life after which a thread of the worker counts as dead."""

SETTLE_TIME = 5.0
"""Seconds for which a stopping worker tries to settle messages that have ended."""


class Life(enum.StrEnum):
    """The states of a Worker, in this order."""

    NEW = "new"
    RUNNING = "running"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


@lists(WorkerOptions)
class Worker:
    """Leases due messages of `timeline`, no more than it can use soon, passes them to `handler` in
    batches as fast as `rate_limiter` allows, and deletes those that succeed.

    * `handler`: a callable or "module:function", def or async def. It takes a list of messages, and
      a WorkerContext as a second argument if it has one. The batch succeeds if it returns None, and
      fails if it raises. To report by message, it returns a mapping of ids to exceptions, or raises
      PartialFailure. Retry(after), Reject(reason) and Throttled control what happens next.
    * `rate_limiter`: None for no limit.

    Thread-safe. Each message is handled at least once; make the handler idempotent by its id.

    >>> from dispatcher.timeline import Message, Timeline
    >>> from dispatcher.worker import Worker
    >>> from limiters.embedded import EmbeddedRedis
    >>> import threading
    >>> sent = threading.Event()
    >>> with EmbeddedRedis() as server:
    ...     timeline = Timeline(server.url, "mails")
    ...     _ = timeline.producer("signup").create([Message({"user": 7}, delay=0.1)])
    ...     with Worker(timeline, lambda messages: sent.set(), rate_limiter=None) as worker:
    ...         sent.wait(10)
    ...     timeline.close()
    True
    >>> worker.totals.done
    1

    The options:
    """

    @takes(WorkerArguments)
    def __init__(self, options: WorkerArguments) -> None:
        self.timeline = timeline = options.timeline
        self.handler = load(options.handler)
        self.totals = WorkerTotals()
        self.drain_time = seconds("drain_time", options.drain_time, zero=True)
        longest = seconds("max_operation_time", options.max_operation_time)
        kept_for = seconds("lease_time", options.lease_time)
        policy = RetryPolicy.of(options.retry, options.max_attempts)
        self._concurrency = options.concurrency
        name = new_consumer_id() if options.consumer_id is None else options.consumer_id
        self.consumer = timeline.consumer(name)
        self.batcher = Batcher(
            rate_limiter=options.rate_limiter,
            max_buffer_size=max(10_000, 4 * options.concurrency * options.max_batch_size),
            flush_interval=options.flush_interval,
            max_operation_time=longest,
            max_concurrent_batches=options.concurrency,
        )
        self._holds = Holds(kept_for, longest)
        environment = WorkerEnvironment(
            timeline=timeline,
            consumer=self.consumer,
            holds=self._holds,
            totals=self.totals,
            failed=self._fail,
            concurrency=options.concurrency,
            batch_size=options.max_batch_size,
            lease_time=kept_for,
        )
        self._keeper = Keeper(environment, overran=self._overran)
        self._settler = Settler(environment)
        self._calls = Calls(environment, self.handler, self._settler, policy)
        limits = None if options.rate_limiter is None else options.rate_limiter.limits
        batch_cost = normal_batch_cost(options.batch_cost, limits)
        costs = MessageCosts(options.cost, limits, batch_cost)
        learned = isinstance(options.batch_cost, Learned) and limits is not None
        watcher = self._calls.watcher(options.batch_cost if learned else batch_cost)
        self._intake = Intake(timeline, costs, options.rate_limiter, watcher, policy)
        self._leasing = Leasing(
            environment,
            self.batcher,
            self._settler,
            self._calls,
            self._intake,
            comes_back=options.consumer_id is not None,
            is_running=lambda: self._life is Life.RUNNING,
        )
        self._life = Life.NEW
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"Worker({self.handler.name}, {self.consumer.id!r} of {self.timeline.topic!r})"

    # Start and stop.

    def start(self) -> None:
        """Start to work, and return immediately. While Redis is away it waits, and logs that once.
        If the limiter cannot start, that raises, and the worker can be started again."""
        with self._lock:
            if self._life is not Life.NEW:
                raise ImproperOrderError(f"this Worker is {self._life}; make a new one")
            self._life = Life.RUNNING
        try:
            self.batcher.start()
        except BaseException:
            self._life = Life.NEW  # nothing has begun, so that nothing can be stopped
            raise
        self._keeper.start()
        self._settler.start()
        self._leasing.start()

    def run(self) -> None:
        """Work until `stop` is called by another thread. WorkerFailedError if the worker's own code
        has failed."""
        if self._life is Life.NEW:
            self.start()
        self._ended.wait()
        self._raise_failure()

    def wait(self, timeout: Seconds | None = None) -> bool:
        """Wait until it has ended. Return whether it has. WorkerFailedError as for `run`."""
        ended = self._ended.wait(optional_seconds("timeout", timeout, zero=True))
        if ended:
            self._raise_failure()
        return ended

    def stop(self, drain_time: Seconds | None = None) -> None:
        """Stop leasing, give back messages that have not begun, wait at most `drain_time` seconds
        for calls of the handler, give back those that have not ended by then, and end. Idempotent.
        """
        patience = optional_seconds("drain_time", drain_time, zero=True)
        with self._lock:
            if self._life is Life.NEW:
                raise ImproperOrderError("this Worker was never started; call start() first")
            stops = self._life is Life.RUNNING
            if stops:
                self._life = Life.DRAINING
        if not stops:
            self._ended.wait()
            return
        try:
            self._drain(self.drain_time if patience is None else patience)
        finally:
            with self._lock:
                if self._life is Life.DRAINING:
                    self._life = Life.STOPPED
            self._ended.set()

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop(None if error is None else 0)
        if error is None:
            self._raise_failure()

    # State.

    @property
    def life(self) -> Life:
        """The state of the worker."""
        return self._life

    @property
    def consists_of(self) -> tuple[object, ...]:
        """The parts that have metrics."""
        return self.batcher, self.timeline

    @property
    def in_flight(self) -> int:
        """Number of running calls of the handler, those that hang included."""
        return self._holds.running + self._holds.overdue

    @property
    def waiting(self) -> int:
        """Number of messages that are leased and have not begun."""
        return self._holds.waiting

    @property
    def hanging(self) -> int:
        """Number of calls of the handler that take longer than they may."""
        return self._holds.overdue

    def trouble(self) -> str:
        """Return why the worker should be restarted; "" if it need not."""
        now = time.monotonic()
        if self._life is Life.FAILED:
            return f"it has failed: {self._error!r}"
        if self._life is not Life.RUNNING:
            return ""
        if self._holds.overdue >= self._concurrency:
            return f"all {self._concurrency} slots hang in the handler"
        if self._holds.stuck:
            return "calls of the handler do not begin: does a coroutine block the event loop?"
        limiter = self.batcher.rate_limiter
        if limiter is not None and (error := limiter.broken) is not None:
            return f"its limiter asks for no capacity any more: {error!r}"
        for name, beat in (
            ("leasing", self._leasing.beat),
            ("extending of leases", self._keeper.beat),
            ("settling", self._settler.beat),
        ):
            if now - beat > LONGEST_SILENCE:
                return f"the thread that does the {name} has not been seen for {now - beat:.0f} s"
        return ""

    def unready(self) -> str:
        """Return why it does no work at present; "" if it works."""
        if self._life is not Life.RUNNING:
            return f"it is {self._life}"
        if not self.consumer.reachable:
            return (
                "Redis has not answered yet"
                if self.consumer.reachable is None
                else ("Redis does not answer")
            )
        if self._leasing.shut_out:
            return "an operator has evicted it from its limit; restart it to let it take part again"
        limiter = self.batcher.rate_limiter
        if isinstance(limiter, SharedResource):
            limit = limiter.standing()
            if limit.refused:
                return "its limit has another lease time or period; the log says how to change them"
            if limit.connected is False and not limiter.capacity:
                return f"its limit {limit.name!r} is not served: {limit.trouble}"
        return self.trouble()

    # Ending.

    def _drain(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        self._begin_no_more()
        left = self._holds.await_ended(max(0.0, deadline - time.monotonic()))
        if left:
            logger.warning(
                "%s of topic %s still in the handler after the drain time of %g s (%s): given "
                "back; should it end after all, handled twice",
                *(counted(len(left)), self.timeline.topic, patience),
                some_of([one.lease.id for one in left]),
                extra={"happening": "drain-time-over", "messages": len(left)},
            )
            self._settler.settle([(one, ReleaseLease(delay=0)) for one in left])
        self._leasing.await_ended(SETTLE_TIME)
        self._stop_keeping()
        self._stop_batcher(waits=not left)

    def _stop_keeping(self) -> None:
        """Extend leases until all is settled."""
        self._settler.stop(SETTLE_TIME)
        self._keeper.stop(1.0)

    def _begin_no_more(self) -> None:
        # First, since leasing may wait for a Redis that hangs, and meanwhile work would begin.
        self._settler.give_back(self._holds.close())
        self._leasing.close()

    def _stop_batcher(self, *, waits: bool) -> None:
        """Stop the Batcher without waiting for calls that hang."""
        stopping = threading.Thread(
            target=self.batcher.stop, kwargs={"drain": False}, name="worker-stop", daemon=True
        )
        stopping.start()
        stopping.join(SETTLE_TIME if waits else 0.5)

    def _overran(self, number: int) -> None:
        self.totals.add(hung=number)
        logger.error(
            "%d calls of %s take longer than max_operation_time; their messages are given out "
            "again when their leases end, and %d of %d slots are taken by what hangs",
            number,
            self.handler.name,
            self._holds.overdue,
            self._concurrency,
            extra={"happening": "handler-hangs", "calls": number},
        )

    def _fail(self, error: BaseException) -> None:
        """End the worker after an error of its own code: a worker that runs in part could lose
        messages unnoticed."""
        with self._lock:
            first, self._error = self._error is None, self._error or error
            self._life = Life.FAILED
        if first:
            facts = {"happening": "worker-broke"}
            logger.critical("%r has failed", self, exc_info=error, extra=facts)
            # On a thread of its own: this one may be any of those that are waited for.
            threading.Thread(target=self._collapse, name="worker-end", daemon=True).start()

    def _collapse(self) -> None:
        """End what is left, as far as possible."""
        try:
            self._begin_no_more()
            self._leasing.await_ended(SETTLE_TIME)
            self._stop_keeping()
            self._stop_batcher(waits=False)
        except Exception:
            facts = {"happening": "worker-left-behind"}
            logger.exception("%r could not release everything", self, extra=facts)
        finally:
            self._ended.set()

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise WorkerFailedError(self._error) from self._error


def new_consumer_id() -> str:
    """Return a unique id: host, process, and random digits."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{secrets.token_hex(3)}"
