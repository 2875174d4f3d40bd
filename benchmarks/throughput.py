"""Speed of operations, compared with the simplest Python that could do it.

The reference makes a slotted object with an operation's fields, appends it to a deque under a lock
and cuts lists of 500 from it. A second one makes an object of three fields only.
"""

from __future__ import annotations

import gc
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.figures import Figure
from dispatcher import Batcher, Operation, Watcher

COUNT = 300_000
SIZE = 500
ROUNDS = 7


class Slotted:
    """An object with an operation's fields, and nothing else."""

    __slots__ = ("attempt", "batchable", "cost", "key", "payload", "priority", "watcher")

    def __init__(
        self,
        watcher: object,
        cost: float,
        payload: object,
        *,
        batchable: bool = False,
        key: object = None,
        priority: int = 0,
    ) -> None:
        self.watcher = watcher
        self.cost = cost
        self.payload = payload
        self.batchable = batchable
        self.key = key
        self.priority = priority
        self.attempt = 0


class Bare:
    """An object with three fields."""

    __slots__ = ("cost", "payload", "watcher")

    def __init__(self, watcher: object, cost: float, payload: object) -> None:
        self.watcher = watcher
        self.cost = cost
        self.payload = payload


def reference() -> float:
    """Return the operations a second of the reference."""
    lock, waiting, callback = threading.Lock(), deque[Any](), ignore
    started = time.perf_counter()
    for number in range(COUNT):
        one = Slotted(None, 1, number, batchable=True)
        with lock:
            waiting.append(one)
        if len(waiting) >= SIZE:
            with lock:
                batch = [waiting.popleft() for _ in range(SIZE)]
            callback(batch)
    return COUNT / (time.perf_counter() - started)


def bare_reference() -> float:
    """Return the operations a second of the reference with an object of three fields."""
    lock, waiting, callback = threading.Lock(), deque[Any](), ignore
    started = time.perf_counter()
    for number in range(COUNT):
        one = Bare(None, 1, number)
        with lock:
            waiting.append(one)
        if len(waiting) >= SIZE:
            with lock:
                batch = [waiting.popleft() for _ in range(SIZE)]
            callback(batch)
    return COUNT / (time.perf_counter() - started)


def ignore(batch: list[Any]) -> None:
    """Do nothing with a batch."""


def one_by_one() -> float:
    """Make operations, enqueue them one by one, and wait for the last callback."""
    watcher = Watcher(ignore, max_batch_size=SIZE)
    with Batcher() as batcher:
        started = time.perf_counter()
        for number in range(COUNT):
            batcher.enqueue(Operation(watcher, 1, number, batchable=True))
        batcher.flush()  # the last batch need not wait for others
        watcher.wait()
        return COUNT / (time.perf_counter() - started)


def many_at_once() -> float:
    """Enqueue operations made before, 10,000 in a call, and wait for the last callback."""
    watcher = Watcher(ignore, max_batch_size=SIZE)
    elapsed = 0.0
    with Batcher() as batcher:
        for _ in range(COUNT // 10_000):
            operations = [Operation(watcher, 1, n, batchable=True) for n in range(10_000)]
            started = time.perf_counter()
            batcher.enqueue_many(operations)
            elapsed += time.perf_counter() - started
            del operations
        started = time.perf_counter()
        batcher.flush()  # the last batch need not wait for others
        watcher.wait()
        return COUNT / (elapsed + time.perf_counter() - started)


def many_made_on_the_way() -> float:
    """Make operations, enqueue 10,000 in a call, and wait for the last callback."""
    watcher = Watcher(ignore, max_batch_size=SIZE)
    with Batcher() as batcher:
        started = time.perf_counter()
        for _ in range(COUNT // 1_000):
            batcher.enqueue_many([Operation(watcher, 1, n, batchable=True) for n in range(1_000)])
        batcher.flush()  # the last batch need not wait for others
        watcher.wait()
        return COUNT / (time.perf_counter() - started)


def sixteen_threads() -> float:
    """Enqueue one by one from sixteen threads; every operation is accounted for."""
    seen: list[int] = []
    watcher = Watcher(lambda batch: seen.extend(o.payload for o in batch), max_batch_size=SIZE)
    each = COUNT // 16
    with Batcher() as batcher, ThreadPoolExecutor(16) as pool:

        def feed(thread: int) -> None:
            for number in range(thread * each, (thread + 1) * each):
                batcher.enqueue(Operation(watcher, 1, number, batchable=True))

        started = time.perf_counter()
        list(pool.map(feed, range(16)))
        batcher.flush()  # the last batch need not wait for others
        watcher.wait()
        elapsed = time.perf_counter() - started
    if sorted(seen) != list(range(16 * each)):
        raise AssertionError("operations were lost or doubled")
    return 16 * each / elapsed


def one_thread_seen() -> float:
    """Enqueue the operations of `sixteen_threads` from one thread."""
    seen: list[int] = []
    watcher = Watcher(lambda batch: seen.extend(o.payload for o in batch), max_batch_size=SIZE)
    with Batcher() as batcher:
        started = time.perf_counter()
        for number in range(COUNT):
            batcher.enqueue(Operation(watcher, 1, number, batchable=True))
        batcher.flush()  # the last batch need not wait for others
        watcher.wait()
        return COUNT / (time.perf_counter() - started)


def run() -> Iterator[Figure]:
    """Measure; every ratio is the median of ratios taken back to back."""
    base = statistics.median(reference() for _ in range(3))
    yield Figure("reference: the barest Python", base, "operations/s")
    yield Figure("enqueue one by one", _ratio(one_by_one, reference), "x reference", at_least=0.5)
    yield Figure("enqueue_many", _ratio(many_at_once, reference), "x reference", at_least=1.5)
    yield Figure("enqueue_many, making included", _ratio(many_made_on_the_way, reference), "x")
    yield Figure("enqueue, against three bare fields", _ratio(one_by_one, bare_reference), "x")
    yield Figure(
        "enqueue_many, against three bare fields", _ratio(many_at_once, bare_reference), "x"
    )
    yield Figure(
        "16 threads", _ratio(sixteen_threads, one_thread_seen), "x one thread", at_least=0.7
    )


def brief() -> Iterator[Figure]:
    """Measure for two trees in turns, also on a busy machine: processor time, best of three."""
    for name, measure in (("enqueue", one_by_one), ("enqueue_many", many_made_on_the_way)):
        rates = []
        for _ in range(3):
            gc.collect()
            before = time.process_time()
            measure()
            rates.append(COUNT / (time.process_time() - before))
        yield Figure(f"{name}, made and raised", max(rates), "operations per CPU second")


def _ratio(one: Callable[[], float], other: Callable[[], float]) -> float:
    ratios = []
    for _ in range(ROUNDS):
        gc.collect()
        ratios.append(one() / other())
    return statistics.median(ratios)
