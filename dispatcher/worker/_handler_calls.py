"""Calls of the handler: each begins with messages whose leases live, and ends in their fates."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from dispatcher._handler import Handler
from dispatcher._retry import RetryPolicy
from dispatcher.errors import BatchAbandonedError
from dispatcher.operation import Operation
from dispatcher.outcomes import PartialFailure, Reject
from dispatcher.timeline import Bury, Delete, ReleaseLease
from dispatcher.watcher import Watcher
from dispatcher.worker._environment import WorkerEnvironment
from dispatcher.worker._handler_log import CallLog
from dispatcher.worker._message_results import Fates, judge
from dispatcher.worker._messages import HandlerRun, Held
from dispatcher.worker._settling import Settler, Work
from dispatcher.worker.context import WorkerContext
from limiters._costs import AnyCost
from limiters._support.callables import keep_last_raise

_SMOOTHING = 0.2
"""How much one call counts in how long a batch takes."""


class _Settled(Reject):
    """The Batcher is to count them as failed. What becomes of them is settled, and logged."""

    is_logged = True


class Calls:
    """Of one worker. Its callbacks run on the Batcher's threads or loop."""

    def __init__(
        self,
        environment: WorkerEnvironment,
        handler: Handler,
        settler: Settler,
        policy: RetryPolicy,
    ) -> None:
        self._handler = handler
        self._holds = environment.holds
        self._settler = settler
        self._totals = environment.totals
        self._policy = policy
        self._topic = environment.timeline.topic
        self._log = CallLog(self._topic)
        self._consumer = environment.consumer
        self._batch_size = environment.batch_size
        self._margin = environment.lease_time / 10
        """A message whose lease ends sooner than this is left out."""
        self._failed = environment.failed
        self.batch_time: float | None = None
        """How long one takes, as far as is known."""

    def watcher(self, batch_cost: AnyCost = 0) -> Watcher:
        """What the Batcher raises batches to, each of which costs `batch_cost` besides."""
        on_batch = self._call_async if self._handler.is_async else self._call
        return Watcher(
            on_batch,
            max_batch_size=self._batch_size,
            batch_cost=batch_cost,
            on_failure=self._given_up,
            retry_abandoned=True,  # not that there is a retry: but so they are handed over
        )

    def refuse(self, held: Iterable[Held], error: BaseException) -> None:
        """Messages that wait fail with `error`, as if the handler had raised it."""
        refused = self._holds.leave(held)
        if refused:
            self._settle(refused, self._judged(refused, error, None))

    def _settle(self, held: Iterable[Held], fates: Fates) -> None:
        by_lease = {id(one.lease): one for one in held}
        works: list[Work] = [(by_lease[id(it)], Delete()) for it in fates.done]
        for delay, leases in fates.again.items():
            works += [(by_lease[id(it)], ReleaseLease(delay=delay)) for it in leases]
        for reason, leases in fates.dead.items():
            self._log.dead([one.id for one in leases], reason)
            works += [(by_lease[id(it)], Bury(reason)) for it in leases]
        self._settler.settle(works)

    def _call(self, operations: list[Operation]) -> None:
        run = self._begin(operations)
        if run is None:
            return
        error: BaseException | None = None
        returned: object = None
        try:
            returned = self._bound(run)([one.lease for one in run.held])
        except BaseException as raised:
            keep_last_raise(raised)
            error = raised
        self._end(run, operations, error, returned)

    async def _call_async(self, operations: list[Operation]) -> None:
        run = self._begin(operations)
        if run is None:
            return
        error: BaseException | None = None
        returned: object = None
        try:
            returned = await self._bound(run)([one.lease for one in run.held])
        except BaseException as raised:
            keep_last_raise(raised)
            error = raised
        self._end(run, operations, error, returned)

    def _bound(self, run: HandlerRun) -> Callable[..., Any]:
        attempt = max(one.lease.attempt for one in run.held)
        return self._handler.bound(WorkerContext(self._topic, self._consumer.id, attempt))

    def _begin(self, operations: list[Operation]) -> HandlerRun | None:
        held = [one.payload for one in operations]
        run = self._holds.begin(held, time.monotonic(), self._margin)
        gone = sum(not one.abandoned for one in held) - (len(run.held) if run else 0)
        if gone > 0 and not self._holds.closed:
            self._totals.add(lost=gone)
            self._log.too_late(gone)
        if run is None:
            self._consumer.look_again()
        return run

    def _end(
        self,
        run: HandlerRun,
        operations: list[Operation],
        error: BaseException | None,
        returned: object,
    ) -> None:
        try:
            refused, fates = self._ended(run, error, returned)
        except BaseException as wrong:
            self._failed(wrong)
            return
        if refused:
            again = [one for one in operations if one.payload in refused]
            raise PartialFailure(again, fates.throttle)
        done = set(map(id, fates.done))
        failed = [one for one in operations if id(one.payload.lease) not in done]
        if failed:
            raise PartialFailure(failed, _Settled("the worker has said why"))

    def _ended(
        self, run: HandlerRun, error: BaseException | None, returned: object
    ) -> tuple[set[Held], Fates]:
        """Those that were refused, which the Batcher raises again after its pause."""
        took = time.monotonic() - run.began
        known = took if self.batch_time is None else self.batch_time
        self.batch_time = known + (took - known) * _SMOOTHING
        fates = self._judged(run.held, error, returned)
        throttled = set(map(id, fates.throttled))
        refused = {one for one in run.held if id(one.lease) in throttled}
        ended = self._holds.end(run, refused)
        self._totals.add(
            batches=1, batches_failed=fates.error is not None, throttled=len(fates.throttled)
        )
        if fates.error is not None:
            self._report(run, fates)
        if ended is None:
            return set(), fates
        self._settle(run.held, fates)
        self._settler.give_back(ended)
        self._consumer.look_again()
        return refused.difference(ended), fates

    def _judged(self, held: Iterable[Held], error: BaseException | None, returned: object) -> Fates:
        batch = [one.lease for one in held]
        try:
            return judge(batch, error, returned, self._policy)
        except BaseException as raised:  # it asks strategies of the user's
            self._log.retry_raised(raised)
            return Fates(again={1.0: batch}, error=error)

    def _report(self, run: HandlerRun, fates: Fates) -> None:
        again, dead = (
            [one.id for leases in some.values() for one in leases]
            for some in (fates.again, fates.dead)
        )
        self._log.failed(
            self._handler.name, fates.error, messages=len(run.held), again=again, dead=dead
        )

    def _given_up(self, operations: list[Operation], error: BaseException) -> None:
        """The Batcher gives them up: they take too long, or the limit was lowered while they
        waited. Those that the handler has failed do not wait, and are settled."""
        held = [one.payload for one in operations]
        if isinstance(error, BatchAbandonedError):
            unbegun = self._holds.abandon(held)
            if unbegun:
                self._log.never_began(len(unbegun))
            self._settler.give_back(unbegun)
            return
        self.refuse(held, error)
