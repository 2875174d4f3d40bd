"""What waiting costs in memory, what idling costs in processor time, what enqueueing costs in
latency."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks.figures import Figure
from dispatcher import Batcher, Operation, Watcher

WAITING = 100_000


def run() -> Iterator[Figure]:
    """The figures."""
    yield Figure("a waiting operation", _bytes_each({}), "bytes", at_most=160)
    yield Figure("a waiting operation, not batchable", _bytes_each({"batchable": False}), "bytes")
    keys = [f"key {n}" for n in range(WAITING)]
    yield Figure("a waiting operation with a key of its own", _bytes_each({}, keys), "bytes")
    yield Figure("a started, idle Batcher", _idle() * 100, "% of a core", at_most=0.5)
    late = _latency()
    yield Figure(
        "enqueue to callback on an idle Batcher, p99, beyond flush_interval",
        late * 1000,
        "ms",
        at_most=5,
    )


def _bytes_each(kind: dict[str, bool], keys: list[str] | None = None) -> float:
    watcher = Watcher(lambda batch: None)
    # It never flushes: what is measured is what waits.
    batcher = Batcher(max_buffer_size=WAITING + 1, flush_interval=3600, max_concurrent_batches=1)
    batcher.start()
    batcher.pause(3600)
    payload = object()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(WAITING):
        key = keys[number] if keys else None
        batcher.enqueue(Operation(watcher, 10, payload, key=key, **{"batchable": True, **kind}))
    while batcher._buffer.inbox:  # until the engine has taken all of it in
        batcher.resume() if False else batcher._bell.ring()
        time.sleep(0.01)
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    batcher.stop(drain=False)
    return used / WAITING


def _idle() -> float:
    with Batcher():
        time.sleep(0.2)
        processor, wall = time.process_time(), time.monotonic()
        time.sleep(5)
        return (time.process_time() - processor) / (time.monotonic() - wall)


def _latency() -> float:
    """The 99th percentile over 300 operations, one at a time."""
    interval = 0.02
    late = []
    with Batcher(flush_interval=interval) as batcher:
        for number in range(300):
            arrived: list[float] = []
            watcher = Watcher(lambda batch, arrived=arrived: arrived.append(time.perf_counter()))
            time.sleep(0.001 * (number % 20))
            enqueued = time.perf_counter()
            batcher.enqueue(Operation(watcher, 1, None, batchable=True))
            watcher.wait()
            late.append(arrived[0] - enqueued - interval)
    return sorted(late)[int(len(late) * 0.99)]
