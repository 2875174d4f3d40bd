"""Calls of the handler: each begins with messages whose leases live, and ends by settling them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from dispatcher._handler import Handler
from dispatcher._retry import RetryPolicy
from dispatcher.errors import BatchAbandonedError
from dispatcher.learned import Learned
from dispatcher.operation import Operation
from dispatcher.outcomes import PartialFailure, Reject
from dispatcher.settlement import RunningCall
from dispatcher.timeline import Bury, Delete, Lease, ReleaseLease
from dispatcher.watcher import Watcher
from dispatcher.worker._environment import WorkerEnvironment
from dispatcher.worker._handler_log import CallLog
from dispatcher.worker._message_results import Fates, judge
from dispatcher.worker._messages import HandlerRun, Held
from dispatcher.worker._settling import Settler, Work
from dispatcher.worker.context import WorkerContext, settled_by
from limiters._costs import AnyCost
from limiters._support.callables import keep_last_raise
from limiters.errors import SettlementError

_SMOOTHING = 0.2
"""Weight of one call in the average duration of a batch."""


def _settle_cost(
    call: RunningCall, operations: list[Operation], actual: AnyCost, message: Lease | None
) -> None:
    """The true cost of a call, or of one of its messages."""
    if message is None:
        call.settle(actual)
        return
    for one in operations:
        if one.payload.lease is message:
            call.settle_one(one, actual)
            return
    raise SettlementError(f"the message {message.id!r} is not of this call of the handler")


class _Settled(Reject):
    """The Batcher is to count these messages as failed. They are settled and logged already."""

    is_logged = True


class Calls:
    """The calls of one worker. Its callbacks run on the Batcher's threads or loop."""

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
        """Average duration of a batch in seconds, by the calls so far."""

    def watcher(self, batch_cost: AnyCost | Learned = 0) -> Watcher:
        """The watcher to which the Batcher raises batches, each at an additional `batch_cost`."""
        on_batch = self._call_async if self._handler.is_async else self._call
        return Watcher(
            on_batch,
            max_batch_size=self._batch_size,
            batch_cost=batch_cost,
            on_failure=self._given_up,
            # not that there is a retry: but so the operations are passed to the failure callback
            retry_abandoned=True,
        )

    def refuse(self, held: Iterable[Held], error: BaseException) -> None:
        """Fail waiting messages with `error`, as if the handler had raised it."""
        refused = self._holds.leave(held)
        if refused:
            self._settle(refused, self._judged(refused, error, None))

    def refuse_for_cost(self, held: Held, error: BaseException) -> None:
        """Fail a message that has no cost, or one that it cannot have."""
        if not isinstance(error, Reject):  # that one says so in the log itself
            self._log.no_cost(held.lease.id, error)
        self.refuse([held], error)

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
            returned = self._bound(run, operations)([one.lease for one in run.held])
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
            returned = await self._bound(run, operations)([one.lease for one in run.held])
        except BaseException as raised:
            keep_last_raise(raised)
            error = raised
        self._end(run, operations, error, returned)

    def _bound(self, run: HandlerRun, operations: list[Operation]) -> Callable[..., Any]:
        attempt = max(one.lease.attempt for one in run.held)
        context = WorkerContext(self._topic, self._consumer.id, attempt)
        return self._handler.bound(
            settled_by(context, partial(_settle_cost, RunningCall(operations), operations))
        )

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
            raise PartialFailure(failed, _Settled("the worker has logged the reason"))

    def _ended(
        self, run: HandlerRun, error: BaseException | None, returned: object
    ) -> tuple[set[Held], Fates]:
        """Settle the messages of a call. Return those that were refused, which the Batcher raises
        again after its pause."""
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
        except BaseException as raised:  # it calls retry strategies of the user
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
        """Settle operations that the Batcher gives up: they take too long, or the limit was lowered
        while they waited. Those that the handler has failed do not wait, and are settled."""
        held = [one.payload for one in operations]
        if isinstance(error, BatchAbandonedError):
            unbegun = self._holds.abandon(held)
            if unbegun:
                self._log.never_began(len(unbegun))
            self._settler.give_back(unbegun)
            return
        self.refuse(held, error)
