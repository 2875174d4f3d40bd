"""The limit of one task: when it is in vain to wait for it any longer."""

from __future__ import annotations

import time
from shlex import quote

from dispatcher.spark.errors import LimitAwayError
from limiters import LimiterConfig, SharedResource
from limiters._redis.url import checked, without_secrets


class TaskLimit:
    """A limiter of the task's own, and since when its Redis has not answered.

    A limit that is only busy answers; then rows wait for their turn, however long that is.
    """

    def __init__(self, config: LimiterConfig, patience: float) -> None:
        self.limiter: SharedResource = config.build()
        self._config = config
        self._patience = patience
        self._since: float | None = None
        """When rows began to wait for an answer."""

    def check(self, begun: float) -> None:
        """Raises if rows wait, the last of them `begun` at that time, and no answer can come."""
        if self.limiter.evicted:
            raise LimitAwayError(
                f"{self._name()} gives this task nothing: an operator has evicted it. The next "
                "attempt at the task takes part again"
            )
        if self.limiter.broken is not None:
            raise LimitAwayError(
                f"{self._name()} cannot be asked: {self.limiter.broken}"
            ) from self.limiter.broken
        standing = self.limiter.standing()
        if standing.refused and not standing.reserved:
            raise LimitAwayError(
                f"{self._name()} gives this task nothing: it has another lease_time or period than "
                f"{self._config.lease_time:g} and {self._config.period:g} s. Use those of the "
                "limit, or change them for everybody: "
                f"dispatcher limit set {quote(self._config.name)} "
                f"--lease-time {self._config.lease_time:g} --period {self._config.period:g}"
            )
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

    def _name(self) -> str:
        where = without_secrets(checked(self._config.url)) if self._config.url else "nowhere"
        return f"limit {self._config.name!r} at {where}"
