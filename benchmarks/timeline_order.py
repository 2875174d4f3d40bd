"""Which messages of a Timeline are served first, and how late, if one of its consumers is busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from benchmarks.figures import Figure
from dispatcher.timeline import Consumer, Leases, Message, Timeline
from limiters.embedded import EmbeddedRedis

BACKLOG, APART_MS = 6_400, 100
MESSAGES, EVERY_S = 600, 0.01
BUSY_S = 1.0


def run() -> Iterator[Figure]:
    """Measure order and lateness."""
    with EmbeddedRedis() as server:
        yield from _backlog(server)
        idle = _p75(server, "idle", 0.0)
        busy = _p75(server, "busy", BUSY_S)
        yield Figure("from due to leased, two idle consumers: p75", idle, "ms")
        yield Figure(
            "the same, if one of them is busy for a second with each message: p75",
            busy,
            "ms",
            at_most=idle + 5,
        )


def _backlog(server: EmbeddedRedis) -> Iterator[Figure]:
    timeline = Timeline(server.url, "backlog")
    producer, consumer = timeline.producer("bench"), timeline.consumer("bench")
    first = int(time.time() * 1000) - BACKLOG * APART_MS
    producer.create(
        [Message(b"", id=f"id-{n}", at=first + n * APART_MS) for n in range(BACKLOG)],
    )
    served: list[int] = []
    while leases := consumer.lease(100, for_=60):
        served += [lease.due for lease in leases]
        consumer.delete(leases)
    latest, overtaken = served[0], 0
    for due in served:
        overtaken = max(overtaken, latest - due)
        latest = max(latest, due)
    yield Figure(
        f"the oldest of {BACKLOG:,} in 64 buckets is served as number",
        served.index(first) + 1,
        "",
        at_most=1_000 / APART_MS,
    )
    yield Figure("by how much a message is overtaken", overtaken, "ms", at_most=1_000)


def _p75(server: EmbeddedRedis, topic: str, busy_s: float) -> float:
    timeline = Timeline(server.url, topic)
    late: list[float] = []
    timeline.watch_lateness(late.extend)
    consumers = [timeline.consumer(name) for name in "ab"]
    threads = [
        threading.Thread(target=_serve, args=(consumer, seconds), daemon=True)
        for consumer, seconds in zip(consumers, (busy_s, 0.0), strict=True)
    ]
    for thread in threads:
        thread.start()
    while {len(consumer.buckets) for consumer in consumers} != {32}:
        time.sleep(0.1)
    producer = timeline.producer("bench")
    for number in range(MESSAGES):
        producer.create([Message(b"", id=f"id-{number}")])
        time.sleep(EVERY_S)
    while timeline.stats().remaining:
        time.sleep(0.1)
    for consumer, thread in zip(consumers, threads, strict=True):
        consumer.close()
        thread.join()
    return sorted(late)[len(late) * 3 // 4] * 1000


def _serve(consumer: Consumer, seconds: float) -> None:
    def work(leases: Leases) -> None:
        consumer.delete(leases)
        time.sleep(seconds)

    consumer.subscribe(work)
