"""Errors of a Batcher, and the tree of all errors of this project.

Each class stands below its base, with the package to import it from. Other bases are in
parentheses::

    DispatcherError                              dispatcher
      BatchAbandonedError (TimeoutError)         dispatcher
      EnqueueError                               dispatcher
        AlreadyEnqueuedError                     dispatcher
        BatcherStoppedError                      dispatcher
        BufferFullError                          dispatcher
        KeyComparisonError                       dispatcher
        NoOperationError                         dispatcher
        NoWatcherError                           dispatcher
        TooExpensiveError (ExceedsCapacityError) dispatcher
        TooManyAttemptsError                     dispatcher
      ForkedError                                dispatcher
      HandlerError                               dispatcher
      HandlerReturnError (TypeError)             dispatcher.worker
      ImproperOrderError                         dispatcher
      LimiterError                               dispatcher
        ExceedsCapacityError                     limiters
        LeaseManagerError                        limiters
          DamagedLimitError                      limiters
        LimiterStoppedError                      limiters
        RedisNotInstalledError (ImportError)     limiters.errors
        ReserveTimeoutError (TimeoutError)       limiters
        ServerNotFoundError                      limiters.embedded
        ServerStartError                         limiters.embedded
        SharedCapacityNotProvisionedError        limiters
      MeasurementError (ValueError)              dispatcher.builders
      MetricsNotInstalledError (ImportError)     dispatcher.metrics
      MetricsServerError                         dispatcher.metrics
      NothingRunError (TypeError)                dispatcher
      RegistrationError                          dispatcher.registration
        AutoRegistrationConflictError            dispatcher.registration
        EntityStoreError                         dispatcher.registration
        RegistrationCycleError (ValueError)      dispatcher.registration
      ReportError                                dispatcher.report
      RowsFailedError                            dispatcher.spark.errors
      SettlementError                            dispatcher
      SparkSinkError                             dispatcher.spark
        BatchFailedError                         dispatcher.spark
        ChangedSinkError                         dispatcher.spark
        LedgerError                              dispatcher.spark
        LimitAwayError                           dispatcher.spark
        MovedCheckpointError                     dispatcher.spark
        SupersededError                          dispatcher.spark
        UnusableRowsError                        dispatcher.spark
      StuckError                                 dispatcher.testing
      TimelineError                              dispatcher.timeline
        BucketCountError                         dispatcher.timeline
        TimelineUnavailableError                 dispatcher.timeline
      WorkerFailedError                          dispatcher.worker
    ArgumentError (ValueError)                   dispatcher

`except DispatcherError` catches all errors but ArgumentError, which is a ValueError: an argument
that cannot be used is a mistake in a program, and no state of a system. Errors carry their facts
as attributes, and their message says what to do. They can be pickled.
"""

from __future__ import annotations

from limiters import errors
from limiters._plain_numbers import plain
from limiters.errors import (
    DispatcherError,
    ImproperOrderError,
    NothingRunError,
    SettlementError,
)

__all__ = [
    "AlreadyEnqueuedError",
    "BatchAbandonedError",
    "BatcherStoppedError",
    "BufferFullError",
    "DispatcherError",
    "EnqueueError",
    "ForkedError",
    "HandlerError",
    "ImproperOrderError",
    "KeyComparisonError",
    "NoOperationError",
    "NoWatcherError",
    "NothingRunError",
    "SettlementError",
    "TooExpensiveError",
    "TooManyAttemptsError",
]


class EnqueueError(DispatcherError):
    """Operations were not accepted; the first `accepted` of the call were."""

    accepted: int = 0


class NoOperationError(EnqueueError):
    """An argument is not an Operation."""

    def __init__(self, given: object) -> None:
        self.given = given
        super().__init__(f"only an Operation can be enqueued, not {given!r}")


class NoWatcherError(EnqueueError):
    """The operation has no watcher."""

    def __init__(self, watcher: object) -> None:
        self.watcher = watcher
        super().__init__(
            f"the operation's watcher is {watcher!r}; give it a Watcher before enqueueing it"
        )


class TooExpensiveError(EnqueueError, errors.ExceedsCapacityError):
    """The operation costs more than the limiter can ever grant."""


class TooManyAttemptsError(EnqueueError):
    """The operation was attempted as often as its watcher allows."""

    def __init__(self, attempts: int, max_attempts: int) -> None:
        self.attempts = attempts
        self.max_attempts = max_attempts
        super().__init__(
            f"the operation was attempted {attempts} times and its watcher's max_attempts is "
            f"{max_attempts}; handle it as failed"
        )


class BufferFullError(EnqueueError):
    """There was no room in the buffer, or none in time."""

    def __init__(self, size: int, accepted: int = 0) -> None:
        self.size = size
        self.accepted = accepted
        super().__init__(
            f"the buffer's {size} places are taken ({accepted} of these operations were "
            "accepted); try again later, allow a longer timeout, or raise max_buffer_size"
        )


class AlreadyEnqueuedError(EnqueueError):
    """The operation is in a buffer or in flight; it can be enqueued again once it has ended."""

    def __init__(self, *, elsewhere: bool = False) -> None:
        self.elsewhere = elsewhere
        """Whether it is in another Batcher than the one that it was passed to."""
        where = "in another Batcher" if elsewhere else "already enqueued or in flight"
        super().__init__(
            f"the operation is {where}; make a new Operation, or enqueue it again when its batch "
            "has ended (or from within its own callback, into its own Batcher)"
        )


class KeyComparisonError(EnqueueError):
    """The operation's key could not be compared with another of the same hash."""

    def __init__(self) -> None:
        super().__init__(
            "the operation's key raised an error when it was compared with another key of the same "
            "hash; give its class an == that returns True or False for any object"
        )


class BatcherStoppedError(EnqueueError):
    """The Batcher was stopped, also if that happened while a call was waiting."""

    def __init__(self, accepted: int = 0) -> None:
        self.accepted = accepted
        super().__init__(
            f"the Batcher is stopped ({accepted} of these operations were accepted); "
            "enqueue into another one"
        )


class ForkedError(DispatcherError):
    """The Batcher was created before this process was forked; its threads are in the parent."""

    def __init__(self) -> None:
        super().__init__(
            "this Batcher was created before the fork, and its threads are in the parent process; "
            "create a new Batcher in the child"
        )


class BatchAbandonedError(DispatcherError, TimeoutError):
    """The callback took longer than max_operation_time."""

    def __init__(self, max_operation_time: float) -> None:
        self.max_operation_time = max_operation_time
        super().__init__(
            f"the batch was not done within max_operation_time ({plain(max_operation_time)} s)"
        )


class HandlerError(DispatcherError):
    """A handler cannot be imported, or cannot be called as required."""

    def __init__(self, target: str, reason: str, trace: str = "") -> None:
        self.target = target
        self.reason = reason
        self.trace = trace
        """The traceback of the import, if that failed."""
        super().__init__(
            f"the handler {target!r} cannot be used: {reason}" + (f"\n{trace}" if trace else "")
        )
