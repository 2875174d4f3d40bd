"""Jobs: a worker that dies in the middle of one comes back and goes on, or another one takes it.

REDIS_URL names the Redis; without it, one is started for as long as this runs.
"""

import os
import time

from dispatcher.timeline import Message, Timeline
from limiters.embedded import EmbeddedRedis


def run(url: str) -> None:
    """Run three jobs with different ends."""
    timeline = Timeline(url, "jobs")
    timeline.producer("planner").create([Message({"job": n}, id=f"job-{n}") for n in range(3)])

    worker = timeline.consumer("worker-1")
    taken = worker.lease(3, for_=0.5)
    worker.extend(taken[0], for_=30)  # this one takes longer
    worker.delete(taken[1])  # this one is finished
    # ... and here its process is killed. Its successor has the same id:
    again = timeline.consumer("worker-1")
    held = {lease.id for lease in again.active()}
    print("the successor still has", sorted(held))
    print("the old process is shut out:", type(worker.extend(taken[0], for_=30)[0]).__name__)

    # It ignores the third one. Its lease ends, and another worker gets it.
    other = timeline.consumer("worker-2")
    lost = other.lease(1, for_=30)
    while not lost:
        time.sleep(0.05)
        lost = other.lease(1, for_=30)
    print("the other worker has", lost[0].id, "attempt", lost[0].attempt)
    other.delete(lost)
    again.delete(lease for lease in again.active())
    print("done:", timeline.stats().deleted, "jobs")


def main() -> None:
    """Use the Redis of REDIS_URL, or start one."""
    if url := os.environ.get("REDIS_URL"):
        run(url)
    else:
        with EmbeddedRedis() as server:
            run(server.url)


if __name__ == "__main__":
    main()
