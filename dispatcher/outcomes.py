"""Outcomes that a callback can raise instead of an ordinary error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from limiters._plain_numbers import plain
from limiters._support.validation import (
    UNSHOWN,
    ArgumentError,
    Seconds,
    flag,
    optional_seconds,
    seconds,
)
from limiters.errors import Sendable


class Outcome(Sendable):
    """An outcome of a batch, raised by its callback. Not an error of this project."""


class Retry(Outcome):
    """Raise the whole batch again, after `after` seconds.

    >>> Retry(after=5).after
    5
    """

    def __init__(self, after: Seconds = 0.0) -> None:
        self.after = seconds("after", after, zero=True)
        super().__init__(f"retry after {plain(self.after)} s")


class Reject(Outcome):
    """Never raise this batch again: its operations have failed.

    >>> str(Reject("no such customer"))
    'rejected: no such customer'
    """

    is_logged = False
    """Whether the log has the reason already: the Batcher then adds no line."""

    def __init__(self, reason: object) -> None:
        self.reason = reason
        super().__init__(f"rejected: {reason}")


class PartialFailure(Outcome):
    """Only the items in `failed` went wrong; the others are done. They are items that the callback
    received: a Batcher's operations, a Worker's messages, a sink's rows (their numbers, counted
    from 0, if it received a RecordBatch).

    Failed items are retried or given up as if the callback had raised `cause`.

    >>> from dispatcher import Batcher, Operation, PartialFailure, Reject, Watcher
    >>> def write(batch):
    ...     bad = [operation for operation in batch if operation.payload < 0]
    ...     if bad:
    ...         raise PartialFailure(bad, Reject("negative"))
    >>> watcher = Watcher(write, on_failure=lambda failed, error: print(failed[0].payload, error))
    >>> with Batcher() as batcher:
    ...     batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in (3, -7)])
    -7 rejected: negative
    """

    def __init__(self, failed: Iterable[Any], cause: BaseException | None = None) -> None:
        if not isinstance(failed, Iterable):
            raise ArgumentError(
                "failed", UNSHOWN, f"hold operations of the batch, not be {failed!r}"
            )
        self.failed = list(failed)
        for one in self.failed:
            if isinstance(one, (str, bytes, float)):
                raise ArgumentError("failed", one, "hold operations of the batch")
        if cause is not None and not isinstance(cause, BaseException):
            raise ArgumentError("cause", cause, "be an exception, such as Reject('why')")
        self.cause = cause
        super().__init__(f"{len(self.failed)} operations failed: {cause or 'no cause given'}")


class Throttled(Outcome):
    """The datastore refused for lack of capacity (429): pause the Batcher, then try again.

    * `retry_after`: the pause. By default the Batcher's `pause_time`.
    * `charged`: whether the datastore has charged the refused call to its limit. If not, the batch
      counts for nothing, but for its calls in flight; its next attempt is charged by itself.

    >>> raise Throttled(retry_after=2)  # what the store's Retry-After says
    Traceback (most recent call last):
    dispatcher.outcomes.Throttled: throttled (retry after: 2)
    """

    def __init__(self, retry_after: Seconds | None = None, *, charged: bool = True) -> None:
        self.retry_after = optional_seconds("retry_after", retry_after, zero=True)
        self.charged = flag("charged", charged)
        said = "not said" if self.retry_after is None else self.retry_after
        super().__init__(f"throttled (retry after: {said})")
