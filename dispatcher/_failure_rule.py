"""Decide whether work whose callback has failed is retried, after what delay, or given up. Pure.

The only place where this is decided: for operations of a Batcher, messages of a Worker and batches
of a Spark sink. Each of them carries the decision out in its own way.
"""

from __future__ import annotations

from collections.abc import Iterable

from dispatcher._retry import RetryPolicy
from dispatcher.outcomes import PartialFailure, Reject, Retry, Throttled
from limiters._support.validation import optional_seconds, seconds


class FailureRule:
    """The meaning of one `error` under `policy`, for everything that failed by it.

    Raises what the user's strategies raise, and ArgumentError if the delay of a Retry or a
    Throttled is no valid time.
    """

    def __init__(self, error: BaseException, policy: RetryPolicy) -> None:
        self.error = error
        self._policy = policy
        self.rejected = isinstance(error, Reject)
        self.throttled = isinstance(error, Throttled)
        """Whether the datastore refused: a pause comes before the next attempt."""
        self.expected = isinstance(error, (Reject, Retry, Throttled))
        """Whether the callback raised an outcome on purpose."""
        self.after = 0.0
        """The delay that the callback asked for."""
        self.pause: float | None = None
        """The pause that the callback asked for; None for the default."""
        if isinstance(error, Retry):
            self.after = seconds("Retry.after", error.after, zero=True)
        elif isinstance(error, Throttled):
            self.pause = optional_seconds("Throttled.retry_after", error.retry_after, zero=True)
        self._delays: dict[int, float | None] = {}

    def delay(self, attempt: int, elapsed: float = 0.0) -> float | None:
        """Return the seconds until work that failed at this attempt, `elapsed` after its first, is
        retried; None if it is given up. All work of one attempt gets the same answer, so that it
        stays together."""
        if attempt not in self._delays:
            self._delays[attempt] = self._decide(attempt, elapsed)
        return self._delays[attempt]

    def _decide(self, attempt: int, elapsed: float) -> float | None:
        if self.rejected:
            return None
        if self.expected:
            return self.after if self._policy.may_repeat(attempt) else None
        return self._policy.delay(attempt, elapsed, self.error)


def partial(
    batch: Iterable[object], error: PartialFailure, kind: str
) -> tuple[set[int], BaseException]:
    """Return the identities of the failed items of `batch`, and the cause. If `error` names other
    items, that is the error, and all have failed. `kind`: the user's word for the items."""
    ids = set(map(id, batch))
    failed = set(map(id, error.failed))
    if strangers := failed - ids:
        wrong = ValueError(
            f"PartialFailure named {len(strangers)} {kind} that are not of this batch; "
            "the whole batch counts as failed"
        )
        wrong.__cause__ = error
        return ids, wrong
    return failed, error if error.cause is None else error.cause
