"""A worker leases due messages from a Timeline and passes them through a Batcher to a handler."""

from typing import TYPE_CHECKING

from limiters._support.lazy_names import lazily

if TYPE_CHECKING:
    from dispatcher.worker._message_results import HandlerReturnError
    from dispatcher.worker.context import WorkerContext
    from dispatcher.worker.errors import WorkerFailedError
    from dispatcher.worker.totals import WorkerTotals
    from dispatcher.worker.worker import Life, Worker

__all__ = [
    "HandlerReturnError",
    "Life",
    "Worker",
    "WorkerContext",
    "WorkerFailedError",
    "WorkerTotals",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "dispatcher.worker._message_results": ["HandlerReturnError"],
        "dispatcher.worker.context": ["WorkerContext"],
        "dispatcher.worker.errors": ["WorkerFailedError"],
        "dispatcher.worker.totals": ["WorkerTotals"],
        "dispatcher.worker.worker": ["Life", "Worker"],
    },
)
