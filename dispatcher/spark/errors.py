"""Errors of sinks. Each message has the change that fixes the problem."""

from __future__ import annotations

import copy
from typing import Self

from dispatcher.errors import DispatcherError


class SparkSinkError(DispatcherError):
    """The base of the errors of a Spark sink."""

    def __init__(self, message: str) -> None:
        super().__init__(message)

    def again(self) -> Self:
        """Return a new error with the same message and this one as its cause, so that each of
        several callers gets its own. One instance would collect the frames of all of them, and keep
        their values alive."""
        error = copy.copy(self)
        error.__cause__ = self
        return error


class SupersededError(SparkSinkError):
    """Another run now sends for this query, so this one must stop."""


class LedgerError(SparkSinkError):
    """The Redis that keeps the ledger gave no answer, or refused a request, or has lost data."""


class LimitAwayError(SparkSinkError):
    """Rows wait for capacity that cannot come: the limit's Redis does not answer, or refuses."""


class ChangedSinkError(SparkSinkError):
    """A micro-batch was begun by a sink that cuts it in another way or with other rows, or the
    times in the ledger are of another kind."""


class MovedCheckpointError(SparkSinkError):
    """A checkpoint was begun by the sink of another query."""


class UnusableRowsError(SparkSinkError):
    """Rows cannot be sent, for example without a subject or a time, and there is no target for dead
    letters."""


class RowsFailedError(DispatcherError):
    """A handler has named rows of a batch that failed, and has given no other cause."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class BatchFailedError(SparkSinkError):
    """A batch failed for good, and there is no target for dead letters."""
