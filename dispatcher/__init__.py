"""Enqueue operations and receive batches, as fast as a shared limit allows and never faster."""

from typing import TYPE_CHECKING

from limiters._support.lazy_names import lazily

if TYPE_CHECKING:
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
        SettlementError,
        TooExpensiveError,
        TooManyAttemptsError,
    )
    from dispatcher.events import Event, Listener
    from dispatcher.learned import Learned, LearnedKind
    from dispatcher.operation import Operation
    from dispatcher.outcomes import Outcome, PartialFailure, Reject, Retry, Throttled
    from dispatcher.settlement import settle
    from dispatcher.state import State
    from dispatcher.watcher import Watcher
    from limiters import ArgumentError, LimiterError, ProvisionedResource, RateLimiter

    __version__: str

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
    "Learned",
    "LearnedKind",
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
    "SettlementError",
    "State",
    "Throttled",
    "TooExpensiveError",
    "TooManyAttemptsError",
    "Watcher",
    "settle",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "dispatcher.batcher": ["Batcher"],
        "dispatcher.errors": [
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
            "NothingRunError",
            "NoWatcherError",
            "SettlementError",
            "TooExpensiveError",
            "TooManyAttemptsError",
        ],
        "dispatcher.events": ["Event", "Listener"],
        "dispatcher.learned": ["Learned", "LearnedKind"],
        "dispatcher.operation": ["Operation"],
        "dispatcher.outcomes": ["Outcome", "PartialFailure", "Reject", "Retry", "Throttled"],
        "dispatcher.settlement": ["settle"],
        "dispatcher.state": ["State"],
        "dispatcher.watcher": ["Watcher"],
        "limiters": ["ArgumentError", "LimiterError", "ProvisionedResource", "RateLimiter"],
        "limiters._version": ["__version__"],
    },
)
