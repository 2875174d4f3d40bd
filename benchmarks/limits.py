"""Limits of every kind, many processes: use, fairness, and cost for Redis.

Real processes and a real Redis; above 30 instances several in one process. Periods above 10 s are
scaled to 10 s, with the same amount per period. Judged over 20 periods or 20 s, from the log that
every process writes as each of its callbacks begins.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis

from benchmarks.figures import Figure
from limiters._support.clock import MonotonicClock
from limiters.embedded import EmbeddedRedis
from limiters.verifier import Spent, fairness, verify
from tests.processes import Processes
from tests.processes.plan import Plan

MAX_PROCESSES = 4
"""Maximum number of processes: each is a Python, and more would share two cores and little else."""

ROWS = os.environ.get("ROWS", "")
"""The rows to run, as a text in their titles; all of them if it is empty."""

now = MonotonicClock().now


@dataclass(frozen=True)
class Crowd:
    """Equal instances, with a backlog that never ends or a trickle."""

    count: int
    cost: float
    batch: int = 1
    share: float | None = None
    """The share of the limit that all of them need together; None for as much as possible."""


@dataclass(frozen=True)
class Row:
    """One limit and its instances."""

    title: str
    capacity: float
    period: float
    partitions: int
    crowds: tuple[Crowd, ...]
    used: float = 0.97
    fair: float | None = 0.98
    lease: float = 5.0
    """The lease time; the default, as for the sync interval."""
    interval: float = 0.5

    @property
    def span(self) -> float:
        """Seconds for which it is judged."""
        return max(20.0, 20 * self.period if self.period < 1 else min(20 * self.period, 60.0))


def _alike(
    title: str, capacity: float, period: float, parts: int, n: int, batch: int, used: float = 0.97
) -> Row:
    return Row(title, capacity, period, parts, (Crowd(n, 1.0, batch),), used)


def _mixed(title: str, *crowds: Crowd) -> Row:
    light = any(one.share for one in crowds)
    return Row(title, 1_000, 1, 20, crowds, *((0.97, None) if light else (0.85, 0.98)))


TABLE = (
    _alike("1,000 a second, batches of 5, 4 instances", 1_000, 1, 20, 4, 5),
    _alike("1,000 a second, batches of 5, 30 instances", 1_000, 1, 20, 30, 5),
    _alike("1,000 a second, batches of 5, 3 instances on 1 partition", 1_000, 1, 1, 3, 5),
    _alike("5 a second, batches of 1, 8 instances", 5, 1, 5, 8, 1),
    _alike("10 a second, batches of 1, 4 instances", 10, 1, 10, 4, 1, used=0.90),
    _alike("60 per 6 s, batches of 1, 4 instances", 60, 6, 10, 4, 1),
    _alike("1,000 a minute (per 10 s), batches of 5, 25 instances", 1_000, 10, 20, 25, 5),
    _alike("1,000 per 10 minutes (per 10 s), batches of 5, 3 instances", 1_000, 10, 2, 3, 5),
    _alike("50 a second, batches of 1, 100 instances", 50, 1, 20, 100, 1),
    _mixed("10 that need 0.1 %, 1 busy", Crowd(10, 1, 1, 0.01), Crowd(1, 5, 2)),
    _mixed("19 that need 0.1 %, 1 busy", Crowd(19, 1, 1, 0.019), Crowd(1, 5, 2)),
    _mixed("1 with operations of the whole limit, 2 small", Crowd(1, 1_000), Crowd(2, 5)),
    _mixed("1 with operations of 0.8, 2 small", Crowd(1, 800), Crowd(2, 5)),
    _mixed("1 with operations of 0.4, 2 small", Crowd(1, 400), Crowd(2, 5)),
    _alike("20,000 a second, batches of 200, 4 instances", 20_000, 1, 20, 4, 200, used=0.985),
)


def run() -> Iterator[Figure]:
    for row in TABLE:
        if ROWS in row.title:
            with EmbeddedRedis() as server:
                yield from _measured(server, row)


def _measured(server: EmbeddedRedis, row: Row) -> Iterator[Figure]:
    plan = Plan(
        url=server.url,
        log="",
        limit="row",
        shared_capacity=row.capacity,
        factor=row.capacity / row.partitions,
        period=row.period,
        lease_time=row.lease,
        max_interval=row.interval,
        operations=None,
    )
    names: list[str] = []
    with Processes(plan) as cluster:
        for number, crowd in enumerate(row.crowds):
            ours = [f"c{number}-{n}" for n in range(crowd.count)]
            names += ours
            groups = [ours[first::MAX_PROCESSES] for first in range(MAX_PROCESSES)]
            rate = 0.0
            if crowd.share is not None:
                rate = crowd.share * row.capacity / row.period / crowd.count / crowd.cost
            cluster.start(
                [one for one in groups if one], cost=crowd.cost, batch=crowd.batch, rate=rate
            )
        time.sleep(max(4.0, 2 * row.period))
        begin, calls = now(), _calls(server)
        time.sleep(row.span)
        end, calls = now(), _calls(server) - calls
        time.sleep(0.2)
        log = cluster.log()
    verdict = verify(log, row.capacity, period=row.period)
    worst = f"worst {verdict.worst:.3f}, {verdict.over} of {verdict.windows} windows over"
    yield Figure(f"{row.title}: windows over", verdict.over, "", at_most=0, note=worst)
    used = _used(log, begin, end, row)
    yield Figure(f"{row.title}: used", used, "of the limit", at_least=row.used)
    if row.fair is not None:
        found = fairness(log, names, start=begin, end=end)
        yield Figure(f"{row.title}: Jain's index", found, "", at_least=row.fair)
    yield Figure(f"{row.title}: calls", calls / (end - begin), "a second, of all")


def _used(log: Sequence[Spent], begin: float, end: float, row: Row) -> float:
    """Return the use over whole periods; a limit with bursts is judged from burst to burst."""
    whole = math.floor((end - begin) / row.period + 1e-6) * row.period
    return (
        sum(one.cost for one in log if begin <= one.at < begin + whole)
        / row.capacity
        / whole
        * row.period
    )


def _calls(server: EmbeddedRedis) -> int:
    with Redis.from_url(server.url) as client:
        stats: Any = client.info("commandstats")
    return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))
