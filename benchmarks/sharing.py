"""One limit, many processes: use, windows over the limit, and shares.

Judged from the log that every process writes as each of its callbacks begins, by the clock of the
machine. LONG=1 runs the case of the seed in full, and takes five minutes; REPORT=DIR draws each
case.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from redis import Redis

from benchmarks.figures import Figure
from dispatcher import Batcher, Operation, Watcher
from dispatcher.report import report
from limiters import RedisLeaseManager, SharedResource
from limiters._support.clock import MonotonicClock
from limiters.embedded import EmbeddedRedis
from limiters.verifier import Spent, fairness, verify
from tests.processes import Processes
from tests.processes.plan import Plan

CAPACITY, FACTOR, COST = 20_000.0, 1_000.0, 10.0
LEASE, INTERVAL, PERIOD = 2.0, 0.5, 1.0
LONG = bool(os.environ.get("LONG"))
REPORT = os.environ.get("REPORT")
"""A directory for a page about each case."""
OPERATIONS = 100_000 if LONG else 20_000
"""Number of operations of each of the two processes that have work: 100 seconds of it, or 20."""

now = MonotonicClock().now
"""The clock by which processes note when a batch began."""

BRIEF = 200_000
"""Number of operations of the brief figures."""


def run() -> Iterator[Figure]:
    with EmbeddedRedis() as server:
        for part in (_two_jobs, _losses, _fair, _dear):
            yield from part(server)


def brief() -> Iterator[Figure]:
    """Measure the processor time of grants for one process that need not wait for them."""
    with EmbeddedRedis() as server:
        manager = RedisLeaseManager(server.url, name="brief", lease_time=LEASE)
        limiter = SharedResource(shared_capacity=1e9, factor=1e8, lease_manager=manager)
        watcher = Watcher(lambda batch: None, max_batch_size=100)
        with Batcher(rate_limiter=limiter, max_buffer_size=2 * BRIEF) as batcher:
            while limiter.capacity < 1e9:
                limiter.give_me(1e9, "brief")
                time.sleep(0.1)
            yield Figure(
                "grants, through a Batcher",
                _granted(batcher, watcher),
                "batches per CPU second",
            )
            yield Figure("acquire()", _acquired(limiter), "calls per CPU second")


def _granted(batcher: Batcher, watcher: Watcher) -> float:
    rates = []
    for _ in range(5):
        operations = [Operation(watcher, 1, None, batchable=True) for _ in range(BRIEF)]
        before = time.process_time()
        batcher.enqueue_many(operations)
        batcher.drain()
        rates.append(BRIEF / 100 / (time.process_time() - before))
    return max(rates)


def _acquired(limiter: SharedResource) -> float:
    rates = []
    for _ in range(5):
        before = time.process_time()
        for _ in range(BRIEF // 5):
            limiter.acquire(1)
        rates.append(BRIEF / 5 / (time.process_time() - before))
    return max(rates)


def _cluster(server: EmbeddedRedis, limit: str, **plan: Any) -> Processes:
    return Processes(Plan(url=server.url, log="", limit=limit, lease_time=LEASE, **plan))


def _calls(server: EmbeddedRedis) -> int:
    with Redis.from_url(server.url) as client:
        stats: Any = client.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))


def _judged(name: str, log: Sequence[Spent]) -> Iterator[Figure]:
    verdict = verify(log, CAPACITY)
    if REPORT:
        file = re.sub(r"\W+", "-", name)
        report(Path(REPORT) / f"{file}.html", log, CAPACITY, title=name)
    yield Figure(f"{name}: worst second", verdict.worst, "of the limit", at_most=1.0)
    yield Figure(f"{name}: over, of {verdict.windows}", verdict.over, "windows", at_most=0)


def _two_jobs(server: EmbeddedRedis) -> Iterator[Figure]:
    name = f"4 processes, 2 with {OPERATIONS:,} operations"
    with _cluster(server, "two-jobs", cost=COST) as cluster:
        cluster.start([["idle 1"], ["idle 2"]])
        begin = now() + 2
        cluster.start([["job 1"], ["job 2"]], operations=OPERATIONS, begin_at=begin)
        batches = 2 * OPERATIONS // Plan.batch
        # In the middle, when nothing starts or ends.
        time.sleep(begin + 3 - now())
        before, since = _calls(server), now()
        time.sleep(2 * OPERATIONS * COST / CAPACITY - 6)
        calls = (_calls(server) - before) / (now() - since) / 2
        while len(cluster.log()) < batches:
            time.sleep(0.2)
        log = cluster.log()
        time.sleep(3)
        before = _calls(server)
        time.sleep(5)
        idle = _calls(server) - before
    used = verify(log, CAPACITY).used
    yield Figure(f"{name}: used", used, "of the limit", at_least=0.98, note="ancestor: 0.884")
    yield from _judged(name, log)
    yield Figure("Redis calls of each busy one", calls, "a second", at_most=2.05)
    yield Figure("Redis calls of all four when idle", idle, "in 5 seconds", at_most=0)


def _losses(server: EmbeddedRedis) -> Iterator[Figure]:
    name = "4 busy, 1 killed, 1 leaves"
    with _cluster(server, "losses", operations=None) as cluster:
        processes = cluster.start([["a"], ["b"], ["c"], ["d"]])
        time.sleep(4)
        processes[0].signal(signal.SIGKILL)
        killed = now()
        back = killed + LEASE + 3 * INTERVAL + PERIOD
        time.sleep(back + 3 - now())
        processes[1].stop()
        left = now()
        time.sleep(5)
        log = cluster.log()
    yield from _judged(name, log)
    title = "used from lease + 3 syncs + period after the kill"
    yield Figure(title, _used(log, back, left), "of the limit", at_least=0.98)
    title = "used from sync + period after the other left"
    back = left + INTERVAL + PERIOD
    yield Figure(title, _used(log, back, left + 5), "of the limit", at_least=0.98)


def _used(log: Sequence[Spent], start: float, end: float) -> float:
    return sum(entry.cost for entry in log if start <= entry.at < end) / CAPACITY / (end - start)


def _fair(server: EmbeddedRedis) -> Iterator[Figure]:
    for count in (3, 4, 6, 13, 30):
        names = [f"i{number}" for number in range(count)]
        # More than a few Pythons would share two cores and little else.
        groups = [names[first::4] for first in range(4) if names[first::4]]
        span = 5 * max(1.0, count / 20)
        with _cluster(server, f"fair-{count}", operations=None) as cluster:
            cluster.start(groups)
            time.sleep(5)
            begin = now()
            time.sleep(2 * span)
            log = cluster.log()
        found = [fairness(log, names, start=at, end=at + span) for at in (begin, begin + span)]
        title = f"{count} busy instances: Jain's index over {span:g} s"
        yield Figure(title, sum(found) / 2, "", at_least=0.99, note=f"lower one {min(found):.4f}")
        yield from _judged(f"{count} busy instances", log)


def _dear(server: EmbeddedRedis) -> Iterator[Figure]:
    with _cluster(server, "dear", operations=None) as cluster:
        cluster.start([["a"], ["b"], ["c"], ["d"]])
        begin = now() + 4
        cluster.start([["dear"]], cost=CAPACITY, batch=1, operations=1, begin_at=begin)
        while not (gone := [entry.at for entry in cluster.log() if entry.instance == "dear"]):
            time.sleep(0.05)
            if now() > begin + 30:
                break
        time.sleep(2)
        log = cluster.log()
    waited = gone[0] - begin if gone else float("inf")
    yield Figure("one worth the whole limit among 4 busy ones", waited, "s", at_most=5)
    yield from _judged("the same", log)
