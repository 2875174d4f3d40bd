"""A worker process compared with a dramatiq worker; its latency, and its memory under load."""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.timeline import rival
from dispatcher.timeline import Lease, Message, Timeline
from dispatcher.worker import Worker
from limiters.embedded import EmbeddedRedis

LONG = bool(os.environ.get("LONG"))
BATCH = 500
MESSAGES, JOBS = 100_000, 5_000
LATE_MESSAGES, LATE_SECONDS, FLUSH = 5_000, 10.0, 0.05
LOAD, LOAD_SECONDS = 2_000, 600.0 if LONG else 60.0
PAGE = os.sysconf("SC_PAGE_SIZE")


def nothing(messages: list[Lease]) -> None:
    """Handle messages by doing nothing."""


def run() -> Iterator[Figure]:
    """Measure all figures of a worker."""
    with EmbeddedRedis() as server:
        yield from _throughput(server)
    with EmbeddedRedis() as server:
        yield from _latency(server)
    with EmbeddedRedis() as server:
        yield from _memory(server)


@contextmanager
def _worker(server: EmbeddedRedis, topic: str, *options: str) -> Iterator[int]:
    """Run a worker process; yield its id."""
    command = ["-m", "dispatcher.cli.main", "worker", "benchmarks.worker:nothing"]
    process = subprocess.Popen(
        [sys.executable, *command, "--topic", topic, "--log-level", "WARNING", *options],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "DISPATCHER_REDIS": server.url},
    )
    try:
        yield process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def _throughput(server: EmbeddedRedis) -> Iterator[Figure]:
    # In turns, since the speed of the machine changes from one second to the next.
    ours, theirs = [], []
    for number in range(3):
        ours.append(_drained(server, f"throughput-{number}"))
        theirs.append(rival("dramatiq", server.url, JOBS, only="drain"))
    known = [one for one in theirs if one is not None]
    if not known:
        yield Figure("against a dramatiq worker: not installed (make bench does)", 0, "")
        return
    mine, other = statistics.median(ours), statistics.median(known)
    yield Figure(
        f"messages ended at batch {BATCH}, against dramatiq with 8 threads",
        mine / other,
        "times",
        at_least=10.0,
        note=f"{mine:,.0f} and {other:,.0f} a second",
    )


def _drained(server: EmbeddedRedis, topic: str) -> float:
    """Return the messages a second, from the first that has ended to the last."""
    timeline = Timeline(server.url, topic)
    producer = timeline.producer("bench")
    for _ in range(MESSAGES // 1_000):
        producer.create([Message(b"x" * 100) for _ in range(1_000)])
    with _worker(server, topic, "--max-batch-size", str(BATCH)):
        first = begun = 0.0
        while (deleted := timeline.stats().deleted) < MESSAGES:
            if deleted and not begun:
                first, begun = deleted, time.perf_counter()
            time.sleep(0.005)
        rate = (MESSAGES - first) / (time.perf_counter() - begun)
    timeline.close()
    return rate


def _latency(server: EmbeddedRedis) -> Iterator[Figure]:
    timeline = Timeline(server.url, "latency")
    late: list[float] = []

    def note(messages: list[Lease]) -> None:
        now = timeline._server.clock.now_ms()
        late.extend(now - message.due for message in messages)

    now_ms, dice = int(time.time() * 1000), random.Random(1)
    dues = [now_ms + 1_500 + dice.randrange(int(LATE_SECONDS * 1000)) for _ in range(LATE_MESSAGES)]
    producer = timeline.producer("bench")
    for at in range(0, LATE_MESSAGES, BATCH):
        producer.create([Message(b"x" * 100, at=due) for due in dues[at : at + BATCH]])
    with Worker(
        timeline, note, rate_limiter=None, max_batch_size=BATCH, flush_interval=FLUSH
    ) as worker:
        while worker.totals.done < LATE_MESSAGES:
            time.sleep(0.02)
    timeline.close()
    late.sort()
    name = f"from due to handler, flush interval {FLUSH * 1000:g} ms"
    for title, share, most in (
        ("p50", 0.5, None),
        ("p99", 0.99, FLUSH * 1000 + 15),
        ("max", 1, None),
    ):
        value = late[min(len(late) - 1, int(len(late) * share))]
        yield Figure(f"{name}: {title}", value, "ms", at_most=most)


def _memory(server: EmbeddedRedis) -> Iterator[Figure]:
    timeline = Timeline(server.url, "memory")
    over = threading.Event()
    feeder = threading.Thread(target=_feed, args=(timeline, over), daemon=True)
    taken: list[float] = []
    assert timeline.buckets
    with _worker(
        server, "memory", "--max-batch-size", str(BATCH), "--reserved", str(LOAD * 2)
    ) as pid:
        feeder.start()
        end = time.monotonic() + LOAD_SECONDS
        while time.monotonic() < end:
            time.sleep(0.5)
            taken.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1e6)
        over.set()
        feeder.join()
    quarter = len(taken) // 4
    early = statistics.median(taken[quarter : 2 * quarter])
    late = statistics.median(taken[-quarter:])
    yield Figure(
        f"memory after {LOAD_SECONDS:g} s at {LOAD:,} messages a second, last quarter to second",
        late / early,
        "",
        at_most=1.02,
        note=f"{early:.1f} and {late:.1f} MB; {timeline.stats().deleted:,} messages",
    )
    timeline.close()


def _feed(timeline: Timeline, over: threading.Event) -> None:
    producer, begun, created = timeline.producer("bench"), time.monotonic(), 0
    while not over.wait(0.05):
        wanted = int((time.monotonic() - begun) * LOAD) - created
        producer.create([Message(b"x" * 100) for _ in range(min(wanted, 1_000))])
        created += min(wanted, 1_000)
