"""Convert messages to operations: their costs, and which of them cannot be handled."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher._retry import RetryPolicy
from dispatcher.errors import TooExpensiveError
from dispatcher.learned import KindOfCost
from dispatcher.operation import Operation
from dispatcher.outcomes import Reject
from dispatcher.timeline import Timeline
from dispatcher.watcher import Watcher
from dispatcher.worker._costs import MessageCosts, normal_batch_cost
from dispatcher.worker._messages import Held
from limiters._costs import AnyCost, is_covered
from limiters.limiter import RateLimiter

Refused = list[tuple[Held, BaseException]]


class Intake:
    """Used by the leasing thread of one worker."""

    def __init__(
        self,
        timeline: Timeline,
        costs: MessageCosts,
        limiter: RateLimiter | None,
        watcher: Watcher,
        policy: RetryPolicy,
    ) -> None:
        self._timeline = timeline
        self._costs = costs
        self._limiter = limiter
        self._watcher = watcher
        self._policy = policy
        self._own_attempts = policy.max_attempts

    @property
    def mean_cost(self) -> AnyCost | None:
        """The average cost of a message; None before the first one."""
        return self._costs.mean

    @property
    def batch_cost(self) -> AnyCost:
        """The cost of a batch, in addition to that of its messages."""
        limits = None if self._limiter is None else self._limiter.limits
        return normal_batch_cost(self._watcher.batch_cost, limits)

    def operations(self, held: Sequence[Held]) -> tuple[list[Operation], Refused]:
        """Return the operations for the Batcher, and the error of each message that cannot be
        handled."""
        self._bound_attempts()
        operations: list[Operation] = []
        refused: Refused = []
        most = None if self._limiter is None else self._limiter.max_capacity
        for one in held:
            try:
                operations.append(self._operation(one, most))
            except BaseException as error:  # a function of the user may raise anything
                refused.append((one, error))
        return operations, refused

    def _bound_attempts(self) -> None:
        """Give the last attempt to the worker: after its last lease a message would be dead without
        a reason."""
        own, allowed = self._own_attempts, self._timeline.max_attempts
        self._policy.max_attempts = min((it for it in (own, allowed) if it), default=None)

    def _operation(self, one: Held, most: AnyCost | None) -> Operation:
        lease, allowed = one.lease, self._policy.max_attempts
        if allowed is not None and lease.attempt > allowed:
            raise Reject(
                f"leased {lease.attempt - 1} times, and the last attempt did not end: its process "
                "was killed or its handler hung, or it failed and max_attempts was lowered since"
            )
        priced = self._costs.kind_of(lease)
        cost = priced.estimate if isinstance(priced, KindOfCost) else priced
        batch_cost = self.batch_cost
        if most is not None and not is_covered(most, batch_cost + cost):
            windows = self._limiter.limits.tightest_windows if self._limiter is not None else {}
            raise TooExpensiveError(cost, most, batch_cost, windows)
        return Operation(self._watcher, priced, one, batchable=True)
