"""Cost of statistics and pages of a Timeline of a million messages, compared with a PING."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from redis import Redis

from benchmarks.figures import Figure
from dispatcher.timeline import Durability, Message, Timeline
from limiters.embedded import EmbeddedRedis

MESSAGES, OURS = 1_000_000, 1_000
DAY_MS = 86_400_000


def run() -> Iterator[Figure]:
    """Measure each kind of reading."""
    with EmbeddedRedis() as server, Redis.from_url(server.url) as client:
        timeline = Timeline(server.url, "looks")
        start = int(time.time() * 1000) + DAY_MS
        dice = random.Random(1)
        for group, number in (("them", MESSAGES - OURS), ("us", OURS)):
            producer = timeline.producer(group)
            for done in range(0, number, 10_000):
                size = min(10_000, number - done)
                dues = [start + dice.randrange(DAY_MS) for _ in range(size)]
                producer.create(
                    [Message(b"x" * 100, at=due) for due in dues], durability=Durability.NONE
                )
        looks: dict[str, tuple[Callable[[], Any], float]] = {
            "a histogram of 1,440 steps": (
                lambda: timeline.histogram(start, start + DAY_MS, 60),
                5_000,
            ),
            "the first page of a group of 1,000": (lambda: timeline.producer("us").list(), 1_250),
            "stats": (timeline.stats, 250),
        }
        for name, (look, most) in looks.items():
            # A limit of 200 ms is one of 5,000 PINGs that take 40 µs each.
            taken, pings = _alternately(look, client)
            yield Figure(
                f"{name}, at {MESSAGES:,} messages",
                taken / pings,
                "PINGs",
                at_most=most,
                note=f"{taken * 1000:.1f} ms",
            )
        yield Figure(
            "of that group on its first page", len(timeline.producer("us").list()[0]), "messages"
        )


def _alternately(look: Callable[[], Any], client: Any) -> tuple[float, float]:
    """Return the medians of a reading and a PING, in seconds."""
    looks, pings = [], []
    for _ in range(9):
        start = time.perf_counter()
        look()
        looks.append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(500):
            client.ping()
        pings.append((time.perf_counter() - start) / 500)
    return sorted(looks)[4], sorted(pings)[4]
