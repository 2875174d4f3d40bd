"""How what a Worker has handled is deleted, released and given up."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from redis import Redis

from dispatcher import Reject, Retry
from dispatcher.timeline import Lease, Message, MessageOutcome, Timeline
from limiters.embedded import EmbeddedRedis
from tests.integration.worker.handled import Made, Noted, create, dead, many
from tests.waiting import until

LEASE = 6.0
"""Seconds: the thread that extends leases may be switched out for two thirds of it."""


def none_for_another(timeline: Timeline, seconds: float) -> None:
    """Nothing is free for another consumer, for so long."""
    other = timeline.consumer("other")
    end = time.monotonic() + seconds

    def is_over() -> bool:
        assert other.lease(10, 1) == []
        return time.monotonic() >= end

    until(is_over)


def scripts_run(server: EmbeddedRedis) -> int:
    with Redis.from_url(server.url) as client:
        stats: Any = client.info("commandstats")
        return int(stats["cmdstat_evalsha"]["calls"])


@pytest.mark.parametrize(
    ("failure", "attempts"),
    [
        (lambda it: ValueError(f"no {it.id}"), 1),
        (lambda it: ValueError(f"no {it.id}"), 2),
        (lambda it: Reject(f"no {it.id}"), 1),
        (lambda it: Retry(after=600 + int(it.body)), 2),
    ],
    ids=["errors", "errors_again", "rejects", "retries"],
)
def test_failures_that_differ_take_no_more_calls_than_those_that_do_not(
    timeline: Timeline,
    run: Made,
    shared_redis: EmbeddedRedis,
    failure: Callable[[Lease], Exception],
    attempts: int,
) -> None:
    for start in range(0, 2_000, 1_000):
        create(timeline, *[Message(n, id=f"m{n}") for n in range(start, start + 1_000)])
    before = scripts_run(shared_redis)
    worker = run(
        Noted(lambda messages: {it.id: failure(it) for it in messages}),
        max_attempts=attempts,
        retry=lambda state: random.uniform(600, 900),
    )
    until(lambda: worker.totals.dead + worker.totals.retried == 2_000)
    # 20 batches: four buckets are leased from and four are settled, at most, for each.
    assert scripts_run(shared_redis) - before < 500
    assert worker.totals.lost == 0
    if worker.totals.dead:
        reasons = dead_of_all(timeline)
        assert len(reasons) == 2_000
        assert all(reason.endswith(f"no {name}") for name, reason in reasons.items())


def dead_of_all(timeline: Timeline) -> dict[str, str]:
    found: dict[str, str] = {}
    cursor, more = "", True
    while more:
        seen, cursor = timeline.dead(1_000, cursor)
        found |= {it.id: it.reason for it in seen}
        more = bool(cursor)
    return found


def test_t3_leases_are_extended_however_long_settling_takes(
    timeline: Timeline, run: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(timeline, *many(2))
    settling, go_on = threading.Event(), threading.Event()

    def handle(messages: Sequence[Lease]) -> None:
        if messages[0].id == "m1":
            go_on.wait(50)

    worker = run(handle, lease_time=LEASE, max_batch_size=1)
    settle = worker.consumer.settle

    def slow(endings: Any) -> list[MessageOutcome]:
        settling.set()
        go_on.wait(50)
        return settle(endings)

    monkeypatch.setattr(worker.consumer, "settle", slow)
    assert settling.wait(30)
    none_for_another(timeline, 2.5 * LEASE)
    go_on.set()
    until(lambda: worker.totals.done == 2)
    assert worker.totals.lost == 0


def test_what_is_being_settled_takes_room(
    timeline: Timeline, run: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(timeline, *many(200))
    settling, go_on = threading.Event(), threading.Event()
    worker = run(Noted(), max_batch_size=5, concurrency=2)
    settle = worker.consumer.settle

    def slow(endings: Any) -> list[MessageOutcome]:
        settling.set()
        go_on.wait(30)
        return settle(endings)

    monkeypatch.setattr(worker.consumer, "settle", slow)
    assert settling.wait(30)
    other = timeline.consumer("other")
    taken = 0

    def takes() -> bool:
        nonlocal taken
        taken += len(other.delete(other.lease(200, 30)))
        return timeline.stats().new == 0

    until(takes)
    assert worker.totals.leased <= 20, "two slots of five run, two of five are being settled"
    go_on.set()
    until(lambda: worker.totals.done + taken == 200)


def test_what_cannot_be_read_is_kept_until_it_is_settled(
    timeline: Timeline, run: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(timeline, *many(3))
    settling, go_on = threading.Event(), threading.Event()
    worker = run(Noted(), lease_time=LEASE, cost="units", max_attempts=1)
    settle = worker.consumer.settle

    def slow(endings: Any) -> list[MessageOutcome]:
        settling.set()
        go_on.wait(50)
        return settle(endings)

    monkeypatch.setattr(worker.consumer, "settle", slow)
    assert settling.wait(30)
    none_for_another(timeline, 2 * LEASE)
    go_on.set()
    until(lambda: worker.totals.dead == 3)
    assert set(dead(timeline)) == {"m0", "m1", "m2"}
