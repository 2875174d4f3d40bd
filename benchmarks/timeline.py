"""The Timeline on one redis-server, in one process, compared with a PING and other queues."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from redis import Redis

from benchmarks.figures import Figure
from dispatcher.timeline import Consumer, Leases, Message, Producer, Timeline
from limiters.embedded import EmbeddedRedis

BATCH = 100
MESSAGES = 20_000
JOBS = 2_000
MILLION = 1_000_000
LATE_MESSAGES, LATE_SECONDS = 10_000, 10.0
RIVALS = Path(os.environ.get("RIVALS_PYTHON", ".venv-rivals/bin/python"))


def run() -> Iterator[Figure]:
    """Measure all figures of the Timeline."""
    config = ("slowlog-log-slower-than 1000000",)
    with EmbeddedRedis(config=config) as server, Redis.from_url(server.url) as client:
        yield from _throughput(server, client)
        client.flushall()
        yield from _lateness(server)
        client.flushall()
        yield from _killed(server)
        client.flushall()
        yield from _memory(server, client)
        client.flushall()
        yield from _backlog(server, client)


def _throughput(server: EmbeddedRedis, client: Any) -> Iterator[Figure]:
    # In turns, since the speed of the machine changes from one second to the next.
    rates = []
    for number in range(7):
        ping = _pings(client)
        timeline = Timeline(server.url, f"throughput-{number}")
        start = time.perf_counter()
        _fill(timeline.producer("bench"), MESSAGES)
        _drain(timeline.consumer("bench"))
        rates.append((MESSAGES / (time.perf_counter() - start), (ping + _pings(client)) / 2))
        timeline.close()
    rate, ping = sorted(rates, key=lambda both: both[0] / both[1])[3]
    yield Figure(
        f"create + lease + delete at batch {BATCH}, against a PING",
        rate / ping,
        "PINGs",
        at_least=4.0,
        note=f"{rate:,.0f} and {ping:,.0f} a second",
    )
    of_rivals = {name: rival(name, server.url, JOBS) for name in ("dramatiq", "arq", "rq")}
    known = {name: one for name, one in of_rivals.items() if one is not None}
    if not known:
        yield Figure("against dramatiq, arq and rq: not installed (make bench does)", 0, "")
        return
    fastest = max(known, key=lambda name: known[name])
    yield Figure(
        "against the fastest of dramatiq, arq and rq",
        rate / known[fastest],
        "times",
        at_least=10.0,
        note=", ".join(f"{name} {one:,.0f}/s" for name, one in known.items()),
    )


def rival(name: str, url: str, jobs: int, *, only: str = "") -> float | None:
    """Return the jobs a second of another queue, enqueued and drained, or `only` the latter."""
    if not RIVALS.exists():
        return None
    folder = Path(__file__).parent
    done = subprocess.run(
        [str(RIVALS.absolute()), "rivals.py", name, url, str(jobs)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        return None
    enqueue, drain = map(float, done.stdout.split()[-2:])
    return jobs / (drain if only == "drain" else enqueue + drain)


def _lateness(server: EmbeddedRedis) -> Iterator[Figure]:
    timeline = Timeline(server.url, "lateness")
    now_ms = int(time.time() * 1000)
    dice = random.Random(1)
    dues = [now_ms + 2_000 + dice.randrange(int(LATE_SECONDS * 1000)) for _ in range(LATE_MESSAGES)]
    producer = timeline.producer("bench")
    for at in range(0, LATE_MESSAGES, BATCH):
        producer.create([Message(b"x" * 100, at=due) for due in dues[at : at + BATCH]])
    consumer = timeline.consumer("bench")
    late: list[float] = []
    early = 0

    def note(leases: Leases) -> None:
        nonlocal early
        now = timeline._server.clock.now_ms()
        late.extend(now - lease.due for lease in leases)
        early += sum(lease.until - 30_000 < lease.due for lease in leases)
        consumer.delete(leases)
        if len(late) == LATE_MESSAGES:
            consumer.close()

    consumer.subscribe(note)
    late.sort()
    name = f"lateness of {LATE_MESSAGES:,} messages at random ms"
    yield Figure(f"{name}: early ones", early, "messages", at_most=0)
    for title, share, most in (("p50", 0.5, None), ("p99", 0.99, 10.0), ("max", 1.0, None)):
        value = late[min(len(late) - 1, int(len(late) * share))]
        yield Figure(f"{name}: {title}", value, "ms", at_most=most)


def _killed(server: EmbeddedRedis) -> Iterator[Figure]:
    """Measure law T7, from the end of the lease, by the server's clock."""
    timeline = Timeline(server.url, "killed")
    dead, alive = timeline.consumer("dead"), timeline.consumer("alive")
    assert alive.buckets
    assert dead.buckets
    timeline.producer("bench").create([Message(n, id=str(n)) for n in range(200)])
    lost = {lease.id: lease.until for lease in dead.lease(200, for_=1.0)}
    late: list[float] = []

    def note(leases: Leases) -> None:
        late.extend(it.until - 30_000 - lost[it.id] for it in leases if it.id in lost)
        alive.delete(leases)
        if len(late) == len(lost):
            alive.close()

    alive.subscribe(note)
    yield Figure(
        "a killed consumer's messages, after their lease: the last", max(late), "ms", at_most=50
    )


def _memory(server: EmbeddedRedis, client: Any) -> Iterator[Figure]:
    timeline = Timeline(server.url, "memory", remember_deleted=1)
    producer, consumer = timeline.producer("bench"), timeline.consumer("bench")
    for _ in range(64):
        producer.create([Message(b"x")])
    _drain(consumer)
    time.sleep(1.1)
    timeline.sweep()
    start = _used(client)
    _fill(producer, 200_000)
    full = _used(client)
    _drain(consumer)
    time.sleep(1.1)
    timeline.sweep()
    end = _used(client)
    yield Figure(
        "memory of a message with a body of 100 bytes",
        (full - start) / 200_000,
        "bytes",
        at_most=400,
    )
    yield Figure(
        "memory after a drain and a sweep, against the start",
        end / start,
        "",
        at_least=0.98,
        at_most=1.02,
        note=f"{start:,} and {end:,} bytes",
    )


def _backlog(server: EmbeddedRedis, client: Any) -> Iterator[Figure]:
    times, scripts = {}, {}
    for number in (1_000, MILLION):
        timeline = Timeline(server.url, f"backlog-{number}")
        producer, consumer = timeline.producer("bench"), timeline.consumer("bench")
        _fill(producer, number, at_once=1_000)
        leases = consumer.lease(BATCH, for_=60)
        consumer.release(leases, delay=0)
        taken = []
        for _ in range(200):
            start = time.perf_counter()
            leases = consumer.lease(BATCH, for_=60)
            taken.append(time.perf_counter() - start)
            consumer.release(leases, delay=0)
        times[number] = sorted(taken)[100] * 1000
        scripts[number] = _longest(client, timeline, producer, consumer)
    yield Figure(
        f"a lease of {BATCH} at {MILLION:,} messages, against 1,000",
        times[MILLION] / times[1_000],
        "",
        at_most=1.5,
        note=f"{times[MILLION]:.2f} and {times[1_000]:.2f} ms",
    )
    for title, share in (("p99", 0.99), ("max", 1.0)):
        value = scripts[MILLION]
        yield Figure(
            f"scripts at the largest batch and {MILLION:,} messages: {title}",
            value[min(len(value) - 1, int(len(value) * share))] / 1000,
            "ms",
            at_most=2.0 if title == "p99" else None,
        )


def _longest(client: Any, timeline: Timeline, producer: Producer, consumer: Consumer) -> list[int]:
    """Return the microseconds of all scripts, by the server's slow log. That also notes commands
    inside scripts and so makes them slower: only what takes longer than 0.1 ms is noted."""
    client.config_set("slowlog-log-slower-than", 100)
    client.config_set("slowlog-max-len", 100_000)
    client.slowlog_reset()
    for number in range(20):
        producer.create([Message(b"x" * 100, id=f"s{number}-{n}") for n in range(200)])
        _fill(producer, 1_000, at_once=1_000)
        leases = consumer.lease(200, for_=60)
        consumer.extend(leases, 90)
        consumer.release(leases[:100], delay=0)
        consumer.delete(leases[100:])
        timeline.stats()
    entries = client.slowlog_get(100_000)
    client.config_set("slowlog-log-slower-than", 1_000_000)
    return sorted(one["duration"] for one in entries if one["command"].startswith(b"EVALSHA"))


def _fill(producer: Producer, number: int, at_once: int = BATCH) -> None:
    body = b"x" * 100
    for _ in range(0, number, at_once):
        outcomes = producer.create([Message(body) for _ in range(at_once)])
        assert outcomes[-1].ok


def _drain(consumer: Consumer) -> None:
    while leases := consumer.lease(BATCH, for_=60):
        consumer.delete(leases)


def _used(client: Any) -> int:
    client.memory_purge()
    return int(client.info("memory")["used_memory"])


def _pings(client: Any) -> float:
    start = time.perf_counter()
    for _ in range(4_000):
        client.ping()
    return 4_000 / (time.perf_counter() - start)
