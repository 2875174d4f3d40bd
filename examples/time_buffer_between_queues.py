"""A delay between two queues: messages of one go into the other some time later.

The position in the first queue is the id, so that a message read again is not delayed twice. It is
deleted only after it is in the second queue: at least once, and exactly once if that queue has ids.
REDIS_URL names the Redis; without it, one is started for as long as this runs.
"""

import os
import queue
import time

from dispatcher.timeline import Leases, Message, Timeline
from limiters.embedded import EmbeddedRedis

DELAY, MESSAGES = 0.3, 500


def run(url: str) -> None:
    """Move messages from one queue to the other."""
    first: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
    second: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
    for offset in range(MESSAGES):
        first.put((offset, time.monotonic()))

    timeline = Timeline(url, "buffer", remember_deleted=60)
    producer, consumer = timeline.producer("reader"), timeline.consumer("writer")
    while not first.empty():
        batch = [first.get() for _ in range(min(100, first.qsize()))]
        producer.create([Message(it, delay=DELAY, id=f"offset-{it[0]}") for it in batch])

    def write(leases: Leases) -> None:
        for lease in leases:
            second.put(tuple(lease.body))
        consumer.delete(leases)
        if second.qsize() == MESSAGES:
            consumer.close()

    consumer.subscribe(write)
    delays = [time.monotonic() - second.get()[1] for _ in range(MESSAGES)]
    print(f"done: {len(delays)} messages, none before {DELAY} s: {min(delays) >= DELAY}")


def main() -> None:
    """Use the Redis of REDIS_URL, or start one."""
    if url := os.environ.get("REDIS_URL"):
        run(url)
    else:
        with EmbeddedRedis() as server:
            run(server.url)


if __name__ == "__main__":
    main()
