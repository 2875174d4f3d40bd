"""A delay between two queues: what comes out of one goes into the other some time later.

The position in the first queue is the id, so that what is read again is not delayed twice; and
what goes into the second one is deleted only then: at least once, and once if that queue knows ids.
REDIS_URL names the Redis; without it, one is started for as long as this runs.
"""

import os
import queue
import time

from dispatcher.timeline import Leases, Message, Timeline
from limiters.embedded import EmbeddedRedis

DELAY, MESSAGES = 0.3, 500


def run(url: str) -> None:
    """From one to the other."""
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
    """With a Redis of yours, or of its own."""
    if url := os.environ.get("REDIS_URL"):
        run(url)
    else:
        with EmbeddedRedis() as server:
            run(server.url)


if __name__ == "__main__":
    main()
