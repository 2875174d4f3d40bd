"""Enqueue operations from a background thread, where no caller could catch an error.

The result is returned as a value; an error goes to the watcher's failure callback.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time

from dispatcher.batcher import Batcher
from dispatcher.errors import BatcherStoppedError, BufferFullError, EnqueueError
from dispatcher.operation import Operation
from dispatcher.watcher import Watcher
from limiters._support.callables import awaited_result_of, keep_last_raise, result_of
from limiters._support.rate_limited_log import RateLimitedLog

_damped = RateLimitedLog(logging.getLogger("dispatcher.senders"))

PATIENCE = 0.05
"""Seconds to wait for room in the buffer before the thread checks for other work."""


class Placed(enum.Enum):
    """Result of enqueueing several operations together."""

    ACCEPTED = enum.auto()
    FULL = enum.auto()
    """The buffer has no room at present."""
    REFUSED = enum.auto()
    """Refused for good; the failure callback was called."""
    STOPPED = enum.auto()
    """The Batcher has stopped."""


def place(batcher: Batcher, operations: list[Operation]) -> Placed:
    """Enqueue `operations`: the first carries the work, the others only follow it. If there is no
    room for a while, those that were not accepted stay in the list."""
    started = time.monotonic()
    try:
        batcher.enqueue_many(operations, PATIENCE)
    except BufferFullError as error:
        del operations[: error.accepted]
        # With a Batcher that raises instead of waiting, the loop would spin.
        time.sleep(max(0.0, started + PATIENCE - time.monotonic()))
        return Placed.FULL
    except BatcherStoppedError as error:
        return Placed.ACCEPTED if error.accepted else Placed.STOPPED
    except EnqueueError as error:
        give_up(operations[0], error)
        return Placed.REFUSED
    return Placed.ACCEPTED


def give_up(operation: Operation, error: BaseException) -> None:
    """Call the watcher's failure callback for an operation that no Batcher accepts."""
    watcher = operation.watcher
    assert isinstance(watcher, Watcher)
    _damped.log(
        logging.ERROR,
        "a batch built for %s is given up: %s",
        *(watcher._terms.name, error),
        extra={
            "happening": "built-batch-given-up",
            "watcher": watcher._terms.name,
            "error": type(error).__name__,
        },
    )
    on_failure = watcher._terms.on_failure
    if on_failure is None:
        return
    try:
        if on_failure.on_loop:
            asyncio.run(awaited_result_of(on_failure.function, [operation], error))
        else:
            result_of(on_failure.function, [operation], error)
    except Exception as raised:
        keep_last_raise(raised)
        _damped.log(
            logging.ERROR,
            "on_failure of %s raised",
            watcher._terms.name,
            exc_info=raised,
            extra={
                "happening": "on-failure-raised",
                "watcher": watcher._terms.name,
                "error": type(raised).__name__,
            },
        )
