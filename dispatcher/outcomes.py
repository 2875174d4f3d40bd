"""What a callback can say by raising, besides that something went wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from limiters.arguments import Seconds, optional_seconds, seconds


class Outcome(Exception):
    """How a batch ended, said by its callback. Not an error of this project."""


class Retry(Outcome):
    """Raise the whole batch again, after `after` seconds.

    >>> Retry(after=5).after
    5
    """

    def __init__(self, after: Seconds = 0.0) -> None:
        self.after = seconds("after", after, zero=True)
        super().__init__(f"retry after {self.after:g} s")


class Reject(Outcome):
    """Never raise this batch again: its operations have failed."""

    def __init__(self, reason: object) -> None:
        self.reason = reason
        super().__init__(f"rejected: {reason}")


class PartialFailure(Outcome):
    """Only `failed` of the batch went wrong; the others are done. They are what the callback was
    given: a Batcher's operations, a Worker's messages.

    Those that failed are retried or given up as if the callback had raised `cause`.
    """

    def __init__(self, failed: Iterable[Any], cause: BaseException | None = None) -> None:
        self.failed = list(failed)
        for one in self.failed:
            if isinstance(one, (str, bytes, int, float)):
                raise ValueError(f"failed must hold operations of the batch, not {one!r}")
        self.cause = cause
        super().__init__(f"{len(self.failed)} operations failed: {cause or 'no cause given'}")


class Throttled(Outcome):
    """The datastore refused for lack of capacity (429): pause the Batcher, then try again.

    Without `retry_after` the pause lasts as long as the Batcher's `pause_time` says.
    """

    def __init__(self, retry_after: Seconds | None = None) -> None:
        self.retry_after = optional_seconds("retry_after", retry_after, zero=True)
        super().__init__(f"throttled (retry after: {self.retry_after or 'not said'})")
