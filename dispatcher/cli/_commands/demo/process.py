"""One process of the demo, which keeps the limit in one of three ways. `main` is its program."""

from __future__ import annotations

import json
import os
import queue
import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Protocol

import dispatcher  # names are loaded at their first use: without a Batcher it starts sooner
import limiters
from dispatcher.cli._commands.demo.datastore_server import DatastoreClient
from dispatcher.cli.datastore import TooManyRequestsError

COST = 10
BATCH = 50
WRITERS = 8
"""Number of requests that a process without a Batcher sends at the same time."""

FIRST_BACKOFF, LAST_BACKOFF = 0.05, 4.0
"""First and last back-off in seconds, doubled, with full jitter. AWS's SDKs do the same, up to 20
s."""

LIMIT, LEASE, INTERVAL, PERIOD, PARTITIONS = "demo", 1.0, 0.25, 1.0, 20


@dataclass
class DemoPlan:
    """How and where one process is to write."""

    name: str = ""
    port: int = 0
    """The port of the datastore."""
    capacity: float | None = None
    """Cost per second of the process; of all processes, if they share it. Without it there is no
    limiter: the process tries, and retries."""
    redis: str | None = None
    """The URL of the Redis for the shared limit."""

    def as_argument(self) -> str:
        """Return the plan as a command line argument."""
        return json.dumps(asdict(self))


class _DemoDatastore(DatastoreClient):
    """Ends the process when the datastore has ended, and with it the demo, instead of raising
    errors."""

    def write(self, records: int, cost: float, waited: float = 0.0) -> None:
        try:
            super().write(records, cost, waited)
        except OSError:
            os._exit(0)


class Writer(Protocol):
    """Writes records to the datastore."""

    def add(self, records: int) -> None:
        """Write this many more records."""


class UnlimitedWriter:
    """A typical writer without a limiter: many threads, back-off, retries."""

    def __init__(self, plan: DemoPlan) -> None:
        self._datastore = _DemoDatastore(plan.port, plan.name)
        self._threads = ThreadPoolExecutor(WRITERS)

    def add(self, records: int) -> None:
        now = time.monotonic()
        for size in _batches(records):
            self._threads.submit(self._write, size, now)

    def _write(self, records: int, since: float) -> None:
        backoff = FIRST_BACKOFF
        while True:
            try:
                self._datastore.write(records, records * COST, time.monotonic() - since)
                return
            except TooManyRequestsError:
                time.sleep(random.uniform(0, backoff))
                backoff = min(2 * backoff, LAST_BACKOFF)


class LimitedWriter:
    """A writer that sends through a Batcher."""

    def __init__(self, plan: DemoPlan) -> None:
        self._datastore = _DemoDatastore(plan.port, plan.name)
        self._watcher = dispatcher.Watcher(self._write, max_batch_size=BATCH)
        self._batcher = dispatcher.Batcher(rate_limiter=_limiter(plan))
        self._batcher.start()

    def add(self, records: int) -> None:
        for size in _batches(records):
            now = time.monotonic()
            self._batcher.enqueue_many(
                [
                    dispatcher.Operation(self._watcher, COST, now, batchable=True)
                    for _ in range(size)
                ]
            )

    def _write(self, batch: list[dispatcher.Operation]) -> None:
        waited = time.monotonic() - batch[0].payload
        try:
            self._datastore.write(len(batch), len(batch) * COST, waited)
        except TooManyRequestsError:
            raise dispatcher.Throttled(retry_after=FIRST_BACKOFF) from None


def _limiter(plan: DemoPlan) -> limiters.RateLimiter:
    assert plan.capacity is not None
    if plan.redis is None:
        return limiters.ProvisionedResource(plan.capacity)
    return limiters.SharedResource(
        shared_capacity=plan.capacity,
        factor=plan.capacity / PARTITIONS,
        lease_manager=limiters.RedisLeaseManager(
            plan.redis, name=LIMIT, lease_time=LEASE, timeout=LEASE / 2
        ),
        max_interval=INTERVAL,
    )


def _batches(records: int) -> Iterator[int]:
    return (min(BATCH, records - first) for first in range(0, records, BATCH))


def main() -> None:
    """Print that it is ready, write as many records as each line of its input says, and exit when
    its input ends."""
    plan = DemoPlan(**json.loads(sys.argv[1]))
    writer: Writer = UnlimitedWriter(plan) if plan.capacity is None else LimitedWriter(plan)
    jobs = queue.SimpleQueue[int]()

    def follow() -> None:
        for line in sys.stdin:
            jobs.put(int(line))
        os._exit(0)

    threading.Thread(target=follow, daemon=True).start()
    with suppress(BrokenPipeError):  # the demo has ended: see follow()
        print("ready", flush=True)  # noqa: T201
    while True:
        writer.add(jobs.get())


if __name__ == "__main__":
    main()
