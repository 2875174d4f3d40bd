"""Reserved capacity in addition to a shared one: how much is used of each, and whether a window is
over."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.backlog import feeding
from benchmarks.figures import Figure
from dispatcher import Batcher, Operation, Watcher
from limiters import MemoryLeaseManager, SharedResource
from limiters.verifier import Spent, verify

SHARED, FACTOR, COST = 20_000, 1_000, 10
RESERVED = (0, 200, 400, 1_000, 2_000)
SIZES = (1, 20, 200)
SETTLING, SECONDS = 1.5, 4.0


def run() -> Iterator[Figure]:
    """Measure one process with a constant backlog."""
    for size in SIZES:
        for reserved in RESERVED:
            yield from _case(reserved, size)


def _case(reserved: int, size: int) -> Iterator[Figure]:
    limiter = SharedResource(
        shared_capacity=SHARED,
        factor=FACTOR,
        reserved_capacity=reserved,
        lease_manager=MemoryLeaseManager("reserved"),
    )
    log: list[Spent] = []

    async def on_batch(batch: list[Operation]) -> None:
        log.append(Spent(time.monotonic(), "one", COST * len(batch)))

    watcher = Watcher(on_batch, max_batch_size=size)
    batcher = Batcher(rate_limiter=limiter)
    batcher.start()

    feeder = feeding(batcher, watcher, COST)
    time.sleep(SETTLING)
    before, began = limiter.standing(), time.monotonic()
    time.sleep(SECONDS)
    after, ended = limiter.standing(), time.monotonic()
    batcher.stop(drain=False)
    feeder.join()
    name = f"batches of {size}, {reserved:,} reserved"
    used = (after.spent_shared - before.spent_shared) / (ended - began) / SHARED
    own = (after.spent_reserved - before.spent_reserved) / (ended - began) / max(reserved, 1)
    verdict = verify(log, SHARED + reserved)
    note = f"of what is reserved {own:.3f}" if reserved else ""
    yield Figure(f"{name}: shared used", used, "of it", at_least=0.98, note=note)
    yield Figure(f"{name}: over, of {verdict.windows}", verdict.over, "windows", at_most=0)
