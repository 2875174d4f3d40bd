"""Operations go in, batches come out: as fast as a shared limit allows, and never faster."""

from dispatcher.batcher import Batcher
from dispatcher.errors import (
    AlreadyEnqueuedError,
    BatchAbandonedError,
    BatcherStoppedError,
    BufferFullError,
    DispatcherError,
    EnqueueError,
    ForkedError,
    HandlerError,
    ImproperOrderError,
    KeyComparisonError,
    NoOperationError,
    NothingRunError,
    NoWatcherError,
    TooExpensiveError,
    TooManyAttemptsError,
)
from dispatcher.events import Event, Listener
from dispatcher.operation import Operation
from dispatcher.outcomes import Outcome, PartialFailure, Reject, Retry, Throttled
from dispatcher.state import State
from dispatcher.watcher import Watcher
from limiters import ArgumentError, LimiterError, ProvisionedResource, RateLimiter

__all__ = [
    "AlreadyEnqueuedError",
    "ArgumentError",
    "BatchAbandonedError",
    "Batcher",
    "BatcherStoppedError",
    "BufferFullError",
    "DispatcherError",
    "EnqueueError",
    "Event",
    "ForkedError",
    "HandlerError",
    "ImproperOrderError",
    "KeyComparisonError",
    "LimiterError",
    "Listener",
    "NoOperationError",
    "NoWatcherError",
    "NothingRunError",
    "Operation",
    "Outcome",
    "PartialFailure",
    "ProvisionedResource",
    "RateLimiter",
    "Reject",
    "Retry",
    "State",
    "Throttled",
    "TooExpensiveError",
    "TooManyAttemptsError",
    "Watcher",
]
