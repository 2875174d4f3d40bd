"""How much of a limit is used, and whether any window is over, judged at the callbacks."""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Iterator

from benchmarks.figures import Figure
from dispatcher import Batcher, BatcherStoppedError, Operation, ProvisionedResource, Watcher

CAPACITY, COST, SIZE, SECONDS = 20_000, 10, 100, 12.0


def run() -> Iterator[Figure]:
    """The figures for one process with a constant backlog."""
    log = _spend()
    log.sort()
    times = [at for at, _ in log]
    sums = [0, *itertools.accumulate(cost for _, cost in log)]
    windows = [
        (sums[n + 1] - sums[bisect.bisect_right(times, at - 1.0)]) / CAPACITY
        for n, at in enumerate(times)
    ]
    # From the end of the first second, so that the first burst is no help.
    first = bisect.bisect_right(times, times[0] + 1.0)
    used = (sums[-1] - sums[first + 1]) / (times[-1] - times[first]) / CAPACITY
    name = f"{CAPACITY:,}/s, cost {COST}, batches of {SIZE}"
    yield Figure(f"{name}: used", used, "of the capacity", at_least=0.98)
    yield Figure(f"{name}: worst second", max(windows), "of the capacity", at_most=1.0)
    over = sum(window > 1 for window in windows)
    yield Figure(f"{name}: windows over, of {len(windows)}", over, "windows", at_most=0)


def _spend() -> list[tuple[float, int]]:
    log: list[tuple[float, int]] = []

    def on_batch(batch: list[Operation]) -> None:
        log.append((time.monotonic(), COST * len(batch)))

    watcher = Watcher(on_batch, max_batch_size=SIZE)
    batcher = Batcher(rate_limiter=ProvisionedResource(CAPACITY))
    batcher.start()

    def feed() -> None:
        try:
            while True:
                batcher.enqueue_many(
                    [Operation(watcher, COST, None, batchable=True) for _ in range(1000)]
                )
        except BatcherStoppedError:
            return

    feeder = threading.Thread(target=feed)
    feeder.start()
    time.sleep(SECONDS)
    batcher.stop(drain=False)
    feeder.join()
    return log
