"""A worker: due work from a Timeline, through a Batcher and its limit, to a handler."""

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
