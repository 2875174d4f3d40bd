"""Operations go in, batches come out: as fast as a shared limit allows, and never faster."""

from dispatcher.batcher import Batcher, State
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
    NoOperationError,
    NoWatcherError,
    TooExpensiveError,
    TooManyAttemptsError,
)
from dispatcher.events import Event, Listener
from dispatcher.operation import Operation
from dispatcher.outcomes import Outcome, PartialFailure, Reject, Retry, Throttled
from dispatcher.watcher import Watcher
from limiters import LimiterError, ProvisionedResource, RateLimiter

__all__ = [
    "AlreadyEnqueuedError",
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
    "LimiterError",
    "Listener",
    "NoOperationError",
    "NoWatcherError",
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
