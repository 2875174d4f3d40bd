"""One of the demo's processes: a job of its own, or none. The demo starts it; see `main`."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass

from dispatcher import Batcher, Operation, Throttled, Watcher
from dispatcher.cli._commands.demo.datastore_server import DatastoreClient
from dispatcher.cli.datastore import TooManyRequestsError
from limiters import RedisLeaseManager, SharedResource

COST = 10
BATCH = 50
WRITERS = 8
"""How many requests a job without a Batcher sends at once."""

LIMIT, LEASE, INTERVAL, PARTITIONS = "demo", 1.0, 0.25, 20


@dataclass
class DemoPlan:
    """What it is told."""

    port: int
    """The datastore's."""
    capacity: float
    records: int
    name: str = "process"
    redis: str | None = None
    """Where the limit is shared; without it, everybody is on their own."""

    def as_argument(self) -> str:
        """The form in which it is handed over."""
        return json.dumps(asdict(self))


def alone(plan: DemoPlan) -> None:
    """What one writes without thinking of a limit: many writers, back-off, try again."""
    datastore = DatastoreClient(plan.port, plan.name)

    handed_over = time.monotonic()

    def write(_: int) -> None:
        attempt = 0
        while True:
            try:
                datastore.write(BATCH, BATCH * COST, time.monotonic() - handed_over)
                return
            except TooManyRequestsError:
                time.sleep(random.uniform(0, min(0.5, 0.02 * 2**attempt)))
                attempt += 1

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(plan.records // BATCH)))


def together(plan: DemoPlan) -> None:
    """The same through a Batcher, whose limit all of the processes share."""
    assert plan.redis is not None
    datastore = DatastoreClient(plan.port, plan.name)

    def on_batch(batch: list[Operation]) -> None:
        waited = time.monotonic() - batch[0].payload
        try:
            datastore.write(len(batch), sum(operation.cost for operation in batch), waited)
        except TooManyRequestsError:
            raise Throttled from None

    limiter = SharedResource(
        shared_capacity=plan.capacity,
        factor=plan.capacity / PARTITIONS,
        lease_manager=RedisLeaseManager(plan.redis, name=LIMIT, lease_time=LEASE),
        max_interval=INTERVAL,
    )
    watcher = Watcher(on_batch, max_batch_size=BATCH)
    with Batcher(rate_limiter=limiter) as batcher:
        for _ in range(plan.records // BATCH):
            now = time.monotonic()
            batcher.enqueue_many(
                [Operation(watcher, COST, now, batchable=True) for _ in range(BATCH)]
            )


def main() -> None:
    """Says that it is ready, waits for a line, does its work, waits for the end of its input;
    which, whenever it comes, is its own end too."""
    plan = DemoPlan(**json.loads(sys.argv[1]))
    begin = threading.Event()

    def follow() -> None:
        for _ in sys.stdin:
            begin.set()
        os._exit(0)

    threading.Thread(target=follow, daemon=True).start()
    with suppress(BrokenPipeError):  # nobody is there any more: see follow()
        print("ready", flush=True)  # noqa: T201
    begin.wait()
    (together if plan.redis else alone)(plan)
    threading.Event().wait()


if __name__ == "__main__":
    main()
