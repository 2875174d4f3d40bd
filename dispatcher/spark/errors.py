"""What can go wrong with a sink; each error says what to do."""

from __future__ import annotations

import copy
from typing import Self

from dispatcher.errors import DispatcherError


class SparkSinkError(DispatcherError):
    """Something about a Spark sink."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def again(self) -> Self:
        """A new error that says the same, with this one as its cause: for whatever raises it to
        several callers. One instance would gather the frames of all of them, and keep alive
        what these were given."""
        error = copy.copy(self)
        error.__cause__ = self
        return error


class SupersededError(SparkSinkError):
    """Another run sends for this query by now: this one must not."""


class LedgerError(SparkSinkError):
    """The Redis that remembers what was acknowledged gave no answer, or refused."""


class LimitAwayError(SparkSinkError):
    """Rows wait for capacity that cannot come: the limit's Redis does not answer, or refuses."""


class ChangedSinkError(SparkSinkError):
    """A micro-batch was begun by a sink that cuts it in another way or with other rows, or what was
    sent before it is known in another kind of time."""


class MovedCheckpointError(SparkSinkError):
    """A checkpoint was begun by the sink of another query."""


class UnusableRowsError(SparkSinkError):
    """Rows have no subject or no time, and nobody said what becomes of such rows."""


class RowsFailedError(DispatcherError):
    """A handler has named rows of a batch that failed, and gave no other cause."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class BatchFailedError(SparkSinkError):
    """A batch failed for good, and there is no target for dead letters."""
