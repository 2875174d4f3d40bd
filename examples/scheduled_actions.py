"""Actions at their time: a user who registers gets notes later, and a cancelled action is deleted.

REDIS_URL names the Redis; without it, one is started for as long as this runs.
"""

import os
import time

from dispatcher.timeline import Leases, Message, Timeline
from limiters.embedded import EmbeddedRedis

DAY = 0.1  # so that this ends soon


def schedule(timeline: Timeline) -> None:
    """Schedule notes. Natural ids make it safe to repeat: a second registration changes nothing."""
    producer = timeline.producer("registration")
    for _ in range(2):
        producer.create(
            [
                Message({"user": 7, "text": f"day {day}"}, delay=day * DAY, id=f"user-7-day-{day}")
                for day in (1, 3, 7)
            ]
        )
    producer.delete(["user-7-day-3"])


def run(url: str) -> None:
    """Schedule, and act when it is time."""
    timeline = Timeline(url, "notes")
    began = time.monotonic()
    consumer = timeline.consumer("notifier-1")
    sent: list[str] = []

    def send(leases: Leases) -> None:
        for lease in leases:
            print(f"after {time.monotonic() - began:.1f} s: {lease.body['text']}")
            sent.append(lease.id)
        consumer.delete(leases)
        if timeline.stats().remaining == 0:
            consumer.close()

    schedule(timeline)
    consumer.subscribe(send)
    print("done:", ", ".join(sent))


def main() -> None:
    """Use the Redis of REDIS_URL, or start one."""
    if url := os.environ.get("REDIS_URL"):
        run(url)
    else:
        with EmbeddedRedis() as server:
            run(server.url)


if __name__ == "__main__":
    main()
