"""Three processes share one limit through Redis: none of them knows the others, and together they
never spend more than 2,000 in any second.

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
    """What each process does: it enqueues what it has, and writes batches as they come."""

    def write(batch: list[Operation]) -> None:
        cost = sum(operation.cost for operation in batch)
        # In one piece, for batches are written by several threads at once.
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
    """Starts three of them, and judges what they wrote."""
    command = [sys.executable, __file__, url]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    written = [
        line.split() for process in processes for line in process.communicate()[0].split("\n")
    ]
    log = [(float(entry[0]), entry[1], float(entry[2])) for entry in written if entry]
    # On a busy machine, a thread may write its line a good while after its batch began.
    print(f"{len(log)} batches of 3 processes: {verify(log, LIMIT, late=0.3)}")


def main() -> None:
    """With a URL it is one of the processes; without, it starts them."""
    if len(sys.argv) > 1:
        work(sys.argv[1])
    elif url := os.environ.get("REDIS_URL"):
        share(url)
    else:
        with EmbeddedRedis() as server:
            share(server.url)


if __name__ == "__main__":
    main()
