"""Cost of metrics: the same work, by turns with an instrumented Batcher and without.

For the first two, processor time of all threads of this process together. Rounds are short and
many, and the quickest quarter of either kind counts, so a busy machine has no influence.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest

from benchmarks.figures import Figure
from dispatcher import Batcher, Operation, Watcher
from dispatcher.metrics import instrument
from limiters import InFlight, Limits, ProvisionedResource, Rate

COUNT = 20_000
AT_ONCE = 2 * COUNT
"""Enough for the engine itself to sort notes, since there is no scrape."""
ROUNDS = 160
MOST = 1.03
LIMITS = Limits(requests=Rate(1e9), tokens=Rate(1e12), calls=InFlight(1_000))
"""So large that nothing waits for them."""


def run() -> Iterator[Figure]:
    """Measure ratios of rounds that take turns."""
    for title, work in (
        ("enqueue one by one, batches of 500", _one_by_one),
        ("enqueue_many, batches of 500", _many_at_once),
        ("a callback of a millisecond, batches of 20", _callbacks),
    ):
        yield Figure(f"{title}: watched", _ratio(work), "x unwatched", at_most=MOST)
    ratio = _ratio(_of_dimensions, lambda: Batcher(rate_limiter=ProvisionedResource(LIMITS)))
    title = "costs of three dimensions, batches of 50: watched"
    yield Figure(title, ratio, "x unwatched", at_most=MOST)
    registry, batcher = CollectorRegistry(), Batcher()
    instrument(batcher, registry)
    times = [_time(lambda: generate_latest(registry)) for _ in range(200)]
    yield Figure("a scrape of one Batcher", statistics.median(times) * 1000, "ms")


def _ratio(work: Callable[[Batcher], float], make: Callable[[], Batcher] = Batcher) -> float:
    plain, watched = [], []
    gc.collect()
    gc.disable()  # it would come by turns of its own
    try:
        for number in range(2 * ROUNDS):
            batcher = make()
            # Each goes first as often as the other.
            if number % 4 in (1, 2):
                instrument(batcher, CollectorRegistry())
                watched.append(work(batcher))
            else:
                plain.append(work(batcher))
            if number % 20 == 19:
                gc.collect()
    finally:
        gc.enable()
    return _undisturbed(watched) / _undisturbed(plain)


def _undisturbed(times: list[float]) -> float:
    """Return the mean of the quickest quarter: other programs only ever add time."""
    return statistics.mean(sorted(times)[: len(times) // 4])


def _one_by_one(batcher: Batcher) -> float:
    watcher = Watcher(_ignore, max_batch_size=500)
    with batcher:
        started = time.process_time()
        for number in range(COUNT):
            batcher.enqueue(Operation(watcher, 1, number, batchable=True))
        batcher.flush()
        watcher.wait()
        return time.process_time() - started


def _many_at_once(batcher: Batcher) -> float:
    watcher = Watcher(_ignore, max_batch_size=500)
    portions = [
        [Operation(watcher, 1, n, batchable=True) for n in range(10_000)]
        for _ in range(AT_ONCE // 10_000)
    ]
    with batcher:
        started = time.process_time()
        for operations in portions:
            batcher.enqueue_many(operations)
        batcher.flush()
        watcher.wait()
        return time.process_time() - started


def _of_dimensions(batcher: Batcher) -> float:
    watcher = Watcher(_ignore, max_batch_size=50, batch_cost={"requests": 1, "calls": 1})
    operations = [
        Operation(watcher, {"tokens": 100 + n % 400}, n, batchable=True) for n in range(5_000)
    ]
    with batcher:
        started = time.process_time()
        batcher.enqueue_many(operations)
        batcher.flush()
        watcher.wait()
        return time.process_time() - started


def _callbacks(batcher: Batcher) -> float:
    watcher = Watcher(lambda batch: time.sleep(0.001), max_batch_size=20)
    with batcher:
        started = time.perf_counter()
        batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(1_000)])
        batcher.flush()
        watcher.wait()
        return time.perf_counter() - started


def _ignore(batch: list[Operation]) -> None:
    """Do nothing with a batch."""


def _time(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
