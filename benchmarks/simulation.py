"""A large cluster in virtual time, with instances that come, go and die. LONG=1: an hour of it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from random import Random

from benchmarks.figures import Figure
from limiters._support.float_error import FLOAT_ERROR
from limiters.testing import Backlog, Network, OnAndOff, SimulatedCluster, Work
from limiters.verifier import verify

LONG = bool(os.environ.get("LONG"))
INSTANCES, PARTITIONS, SECONDS = (1_000, 10_000, 3_600.0) if LONG else (200, 2_000, 60.0)


def run() -> Iterator[Figure]:
    """Measure a cluster of each size."""
    random = Random(1)
    cluster = SimulatedCluster(
        capacity=PARTITIONS * 100.0,
        factor=100.0,
        seed=1,
        drift=0.001,
        network=Network(delay=0.002, lost_requests=0.005, lost_replies=0.005, doubled=0.005),
    )

    def come(number: int) -> None:
        piece = 100.0 * PARTITIONS / INSTANCES / 5
        kinds: list[Work] = [Backlog(piece), OnAndOff(piece, random.uniform(1, 9), 5)]
        cluster.add(f"i{number}", random.choice(kinds))

    def strike(now: float) -> None:
        name = random.choice(list(cluster.instances))
        fault = random.randrange(3)
        if fault == 0:
            cluster.kill(name)
            come(next(numbers))
        elif fault == 1:
            cluster.hang(name, random.uniform(0.1, 5))
        else:
            cluster.cut_off(name, random.uniform(0.1, 5))
        cluster.at(now + random.expovariate(2), strike)

    numbers = iter(range(10**9))
    for _ in range(INSTANCES):
        come(next(numbers))
    cluster.at(5.0, strike)
    at = time.monotonic()
    over = windows = 0
    worst = spent = 0.0
    while cluster.now < SECONDS:
        cluster.run(min(SECONDS, cluster.now + 30))
        verdict = verify(cluster.log, PARTITIONS * 100.0)
        over, windows = over + verdict.over, windows + verdict.windows
        worst, spent = max(worst, verdict.worst), spent + verdict.total
        # The last second is judged again with what follows.
        cluster.log = [entry for entry in cluster.log if entry.at > cluster.now - 1]
        spent -= sum(entry.cost for entry in cluster.log)
        if LONG and sys.stderr.isatty():
            sys.stderr.write(f"\r{cluster.now:,.0f} of {SECONDS:,.0f} s, {windows:,} windows")
    name = f"{INSTANCES:,} instances, {PARTITIONS:,} partitions, {SECONDS:,.0f} s"
    yield Figure(f"{name}: worst window", worst, "of the limit", at_most=1 + FLOAT_ERROR)
    yield Figure(f"{name}: over, of {windows:,}", over, "windows", at_most=0)
    yield Figure(f"{name}: used", spent / (PARTITIONS * 100.0 * SECONDS), "of the limit")
    yield Figure("virtual seconds a second", SECONDS / (time.monotonic() - at), "")
