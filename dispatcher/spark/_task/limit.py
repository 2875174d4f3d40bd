"""The limit of one task. It finds when rows wait for capacity that cannot come."""

from __future__ import annotations

import time
from shlex import quote

from dispatcher.spark.errors import LimitAwayError
from limiters import LimiterConfig, SharedResource
from limiters._redis.url import checked, without_secrets
from limiters.limits import Limits


class TaskLimit:
    """The task's own limiter, with the time since which its Redis has not answered.

    The Redis of a limit that is only busy answers; then rows wait for their turn without end.
    """

    def __init__(self, config: LimiterConfig, patience: float) -> None:
        self.limiter: SharedResource = config.build()
        self._config = config
        self._patience = patience
        self._since: float | None = None
        """The time when rows began to wait for an answer."""

    def check(self, begun: float) -> None:
        """Raise if no answer can come. `begun` is the time when the last batch began: rows wait
        since."""
        if self.limiter.evicted:
            raise LimitAwayError(
                f"{self._name()} gives this task nothing: an operator has evicted it. The next "
                "attempt at the task takes part again"
            )
        if self.limiter.broken is not None:
            raise LimitAwayError(
                f"{self._name()} cannot be used: {self.limiter.broken}"
            ) from self.limiter.broken
        standing = self.limiter.standing()
        if standing.refused and not standing.reserved:
            raise LimitAwayError(f"{self._name()} gives this task nothing: {self._refusal()}")
        if standing.connected is not False:
            self._since = None
            return
        now = time.monotonic()
        self._since = max(self._since or now, begun)
        if now - self._since >= self._patience:
            raise LimitAwayError(
                f"{self._name()} has not answered for {self._patience:g} s, and rows wait for it. "
                "Run the query again when that Redis can be reached; patience says how long a task "
                "waits for it"
            )

    def _refusal(self) -> str:
        config = self._config
        if isinstance(config.shared_capacity, Limits):
            return (
                f"it has another lease_time than {config.lease_time:g} s, or other dimensions or "
                f"windows than {config.shared_capacity}. Use those of the limit"
            )
        return (
            f"it has another lease_time or period than {config.lease_time:g} and "
            f"{config.period:g} s, or several dimensions. Use those of the limit, or change them "
            f"for all instances: dispatcher limit set {quote(config.name)} "
            f"--lease-time {config.lease_time:g} --period {config.period:g}"
        )

    def _name(self) -> str:
        where = without_secrets(checked(self._config.url)) if self._config.url else "nowhere"
        return f"limit {self._config.name!r} at {where}"
