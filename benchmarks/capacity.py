"""Use of a limit, and windows over it, judged at the callbacks."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.backlog import feeding
from benchmarks.figures import Figure
from dispatcher import Batcher, Operation, ProvisionedResource, Watcher
from limiters.verifier import Spent, verify

CAPACITY, COST, SIZE, SECONDS = 20_000, 10, 100, 12.0


def run() -> Iterator[Figure]:
    """Measure one process with a constant backlog."""
    log = _spend()
    verdict = verify(log, CAPACITY)
    # From the end of the first second, so that the first burst does not help.
    settled = verify([entry for entry in log if entry.at > log[0].at + 1], CAPACITY)
    name = f"{CAPACITY:,}/s, cost {COST}, batches of {SIZE}"
    yield Figure(f"{name}: used", settled.used, "of the capacity", at_least=0.98)
    yield Figure(f"{name}: worst second", verdict.worst, "of the capacity", at_most=1.0)
    title = f"{name}: windows over, of {verdict.windows}"
    yield Figure(title, verdict.over, "windows", at_most=0)


def _spend() -> list[Spent]:
    log: list[Spent] = []

    def on_batch(batch: list[Operation]) -> None:
        log.append(Spent(time.monotonic(), "one", COST * len(batch)))

    watcher = Watcher(on_batch, max_batch_size=SIZE)
    batcher = Batcher(rate_limiter=ProvisionedResource(CAPACITY))
    batcher.start()

    feeder = feeding(batcher, watcher, COST)
    time.sleep(SECONDS)
    batcher.stop(drain=False)
    feeder.join()
    return sorted(log)
