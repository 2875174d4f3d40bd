"""Cost of a shared limit: from idle to the first batch, and compared with a call to Redis for each
operation."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from typing import Any

from limits import parse, storage, strategies
from redis import Redis

from benchmarks.figures import Figure
from dispatcher import Batcher, Operation, Watcher
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis

LEASE, TRIALS, OPERATIONS = 2.0, 12, 400_000


def run() -> Iterator[Figure]:
    """Measure with one process and one Redis."""
    with EmbeddedRedis() as server:
        yield from _from_idle(server)
        yield from _beside_asking_each_time(server)


def _limiter(server: EmbeddedRedis, name: str, capacity: float, factor: float) -> SharedResource:
    manager = RedisLeaseManager(server.url, name=name, lease_time=LEASE)
    return SharedResource(shared_capacity=capacity, factor=factor, lease_manager=manager)


def _from_idle(server: EmbeddedRedis) -> Iterator[Figure]:
    limiter = _limiter(server, "from-idle", 20_000, 1_000)
    size = 100
    first: list[float] = []
    all_of_it: list[float] = []
    began: list[float] = []
    watcher = Watcher(lambda batch: began.append(time.monotonic()), max_batch_size=size)
    limiter.add_listener(
        lambda event: (
            all_of_it.append(time.monotonic()) if event.value >= 20_000 * (1 - 1e-6) else None
        ),
        "capacity",
    )
    ping = _ping(server)
    to_all = []
    with Batcher(rate_limiter=limiter) as batcher:
        for _ in range(TRIALS):
            while limiter.partitions or batcher.inflight:
                time.sleep(0.05)
            time.sleep(0.2)
            began.clear()
            all_of_it.clear()
            operations = [Operation(watcher, 10, None, batchable=True) for _ in range(30 * size)]
            at = time.monotonic()
            batcher.enqueue_many(operations)
            batcher.drain()
            first.append(began[0] - at)
            to_all.append(all_of_it[0] - at if all_of_it else float("inf"))
    # A full batch waits for no flush.
    yield Figure(
        "from idle to the first batch, p50",
        statistics.median(first) * 1000,
        "ms",
        at_most=10,
        note=f"{statistics.median(first) / ping:.1f} PINGs; ancestor: 200 ms and more",
    )
    yield Figure(
        "from idle to all 20 partitions, p50",
        statistics.median(to_all) * 1000,
        "ms",
        note=f"{statistics.median(to_all) / ping:.1f} PINGs; ancestor: about 5 s",
    )


def _ping(server: EmbeddedRedis) -> float:
    with Redis.from_url(server.url) as client:
        times = []
        for _ in range(500):
            at = time.perf_counter()
            client.ping()
            times.append(time.perf_counter() - at)
    return statistics.median(times)


def _beside_asking_each_time(server: EmbeddedRedis) -> Iterator[Figure]:
    limiter = _limiter(server, "beside", 1e9, 1e8)
    watcher = Watcher(lambda batch: None, max_batch_size=500)

    def made() -> list[Operation]:
        return [Operation(watcher, 1, None, batchable=True) for _ in range(OPERATIONS)]

    ratios, with_making, acquired = [], [], []
    with Batcher(rate_limiter=limiter, max_buffer_size=2 * OPERATIONS) as batcher:
        while limiter.capacity < 1e9:
            limiter.give_me(1e9, "benchmark")
            time.sleep(0.1)
        for _ in range(5):
            each = _asking_each_time(server)
            operations = made()
            at = time.perf_counter()
            batcher.enqueue_many(operations)
            batcher.drain()
            ratios.append(OPERATIONS / (time.perf_counter() - at) / each)
            at = time.perf_counter()
            batcher.enqueue_many(made())
            batcher.drain()
            with_making.append(OPERATIONS / (time.perf_counter() - at) / each)
            at, count = time.perf_counter(), 0
            while time.perf_counter() - at < 0.5:
                limiter.acquire(1)
                count += 1
            acquired.append(count / 0.5 / each)
    name = "operations a second, of those of `limits`"
    yield Figure(name, statistics.median(ratios), "times", at_least=50)
    yield Figure("the same, making them included", statistics.median(with_making), "times")
    yield Figure("acquire(), of those of `limits`", statistics.median(acquired), "times")


def _asking_each_time(server: EmbeddedRedis) -> float:
    """Return the operations a second of a limiter that asks Redis for each."""
    limiter: Any = strategies.FixedWindowRateLimiter(storage.storage_from_string(server.url))
    item = parse("1000000000/second")
    at, count = time.perf_counter(), 0
    while time.perf_counter() - at < 1:
        limiter.hit(item, "benchmark")
        count += 1
    return count / (time.perf_counter() - at)
