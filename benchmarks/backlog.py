"""A backlog that does not end: for figures of what a limit lets through."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from dispatcher import Batcher, BatcherStoppedError, Operation, Watcher

AT_ONCE = 1000


def feeding(
    batcher: Batcher, watcher: Watcher, cost: float | Mapping[str, float]
) -> threading.Thread:
    """Enqueues operations of `cost` on a thread of its own, until `batcher` is stopped."""

    def feed() -> None:
        try:
            while True:
                batcher.enqueue_many(
                    [Operation(watcher, cost, None, batchable=True) for _ in range(AT_ONCE)]
                )
        except BatcherStoppedError:
            return

    feeder = threading.Thread(target=feed)
    feeder.start()
    return feeder
