"""Three processes share one limit through Redis: together they never spend more than 2,000 in any
second.

REDIS_URL names the Redis; without it, one is started for as long as this runs.
"""

import os
import subprocess
import sys
import time

from dispatcher import Batcher, Operation, Watcher
from limiters import RedisLeaseManager, SharedResource
from limiters.embedded import EmbeddedRedis
from limiters.verifier import verify

LIMIT, COST, OPERATIONS = 2_000, 10, 300


def work(url: str) -> None:
    """Run one process: enqueue its operations, and write each batch to stdout."""

    def write(batch: list[Operation]) -> None:
        cost = sum(operation.cost for operation in batch)
        # In one piece, since batches are written by several threads concurrently.
        sys.stdout.write(f"{time.monotonic()} {os.getpid()} {cost}\n")

    leases = RedisLeaseManager(url, name="example", lease_time=1)
    limiter = SharedResource(
        shared_capacity=LIMIT, factor=100, lease_manager=leases, max_interval=0.25
    )
    watcher = Watcher(write, max_batch_size=10)
    with Batcher(rate_limiter=limiter) as batcher:
        for number in range(OPERATIONS):
            batcher.enqueue(Operation(watcher, COST, number, batchable=True))


def share(url: str) -> None:
    """Start three processes, and judge what they wrote."""
    command = [sys.executable, __file__, url]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    written = [
        line.split() for process in processes for line in process.communicate()[0].split("\n")
    ]
    log = [(float(entry[0]), entry[1], float(entry[2])) for entry in written if entry]
    # On a busy machine, a thread may write its line a while after its batch began.
    print(f"{len(log)} batches of 3 processes: {verify(log, LIMIT, late=0.3)}")


def main() -> None:
    """With a URL, be one of the processes; without, start them."""
    if len(sys.argv) > 1:
        work(sys.argv[1])
    elif url := os.environ.get("REDIS_URL"):
        share(url)
    else:
        with EmbeddedRedis() as server:
            share(server.url)


if __name__ == "__main__":
    main()
