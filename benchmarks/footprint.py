"""Memory of waiting operations, processor time of an idle Batcher, latency of an enqueue."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Iterator

from benchmarks.figures import Figure
from dispatcher import Batcher, Operation, State, Watcher

WAITING = 100_000
INTERVAL = 0.02


def run() -> Iterator[Figure]:
    """Measure memory, processor time and latency."""
    yield Figure("a waiting operation", _bytes_each(batchable=True), "bytes", at_most=160)
    yield Figure("the same, not batchable", _bytes_each(batchable=False), "bytes", at_most=160)
    yield Figure("the same, each with a key of its own", _bytes_each(keyed=True), "bytes")
    yield Figure("a started, idle Batcher", _idle() * 100, "% of a core", at_most=0.5)
    name = f"from enqueue to callback at p99, beyond flush_interval ({INTERVAL * 1000:g} ms)"
    yield Figure(name, _latency() * 1000, "ms", at_most=5)


def _bytes_each(*, batchable: bool = True, keyed: bool = False) -> float:
    watcher = Watcher(lambda batch: None)
    # Paused, so that it takes everything in and raises nothing.
    batcher = Batcher(max_buffer_size=WAITING + 1)
    batcher.start()
    batcher.pause(3600)
    while batcher.state != State.PAUSED:
        time.sleep(0.001)
    payload = object()
    keys = [f"key {number}" for number in range(WAITING)] if keyed else [None] * WAITING
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for key in keys:
        batcher.enqueue(Operation(watcher, 10, payload, batchable=batchable, key=key))
    batcher.pause()  # changes nothing, but wakes the engine
    while batcher._buffer.inbox:
        time.sleep(0.001)
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
    """Return the 99th percentile over 300 operations, one at a time."""
    late = []
    with Batcher(flush_interval=INTERVAL) as batcher:
        for number in range(300):
            arrived: list[float] = []

            def on_batch(batch: list[Operation], arrived: list[float] = arrived) -> None:
                arrived.append(time.perf_counter())

            watcher = Watcher(on_batch)
            time.sleep(0.001 * (number % 20))
            enqueued = time.perf_counter()
            batcher.enqueue(Operation(watcher, 1, None, batchable=True))
            watcher.wait()
            late.append(arrived[0] - enqueued - INTERVAL)
    return sorted(late)[int(len(late) * 0.99)]
