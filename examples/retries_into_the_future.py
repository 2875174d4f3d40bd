"""Retries on a timeline, further into the future each time; what fails too often is dead.

REDIS_URL names the Redis; without it, one is started for as long as this runs.
"""

import os

from dispatcher.timeline import Lease, Leases, Message, Timeline
from limiters.embedded import EmbeddedRedis


def call(lease: Lease) -> None:
    """Stands for a service that is down for a while, and never takes one of the orders."""
    if lease.body == "impossible" or lease.attempt < 3:
        raise ConnectionError("service unavailable")


def run(url: str) -> None:
    """Try all, until none is left."""
    timeline = Timeline(url, "orders", max_attempts=4)
    timeline.producer("shop").create([Message("possible"), Message("impossible")])
    consumer = timeline.consumer("worker-1")

    def work(leases: Leases) -> None:
        for lease in leases:
            try:
                call(lease)
            except ConnectionError as error:
                pause = 0.05 * 2**lease.attempt
                print(f"{lease.body}, attempt {lease.attempt}: {error}; again in {pause:g} s")
                consumer.release(lease, delay=pause)
            else:
                print(f"{lease.body}, attempt {lease.attempt}: accepted")
                consumer.delete(lease)

    while timeline.stats().remaining:
        work(consumer.lease(100, for_=30))
    dead, _ = timeline.dead()
    print("done; given up:", [snapshot.body for snapshot in dead])


def main() -> None:
    """Use the Redis of REDIS_URL, or start one."""
    if url := os.environ.get("REDIS_URL"):
        run(url)
    else:
        with EmbeddedRedis() as server:
            run(server.url)


if __name__ == "__main__":
    main()
