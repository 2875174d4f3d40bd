"""How what a Worker has handled is deleted, released and given up."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from redis import Redis

from dispatcher import Reject, Retry
from dispatcher.timeline import Consumer, Lease, Message, MessageOutcome, Timeline
from limiters.embedded import EmbeddedRedis
from tests.integration.worker.handled import KeeperTime, Made, Noted, create, dead, many
from tests.waiting import LONG, until


class HeldUp:
    """Settling waits until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._began, self._go_on = threading.Event(), threading.Event()
        settle = Consumer.settle

        def slow(consumer: Consumer, endings: Any) -> list[MessageOutcome]:
            self._began.set()
            self._go_on.wait()
            return settle(consumer, endings)

        monkeypatch.setattr(Consumer, "settle", slow)

    def wait(self) -> None:
        """Wait until settling is held up."""
        assert self._began.wait(LONG)

    def go_on(self) -> None:
        """Let the call that is held up settle."""
        self._go_on.set()


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldUp]:
    held = HeldUp(monkeypatch)
    yield held
    held.go_on()


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
    timeline: Timeline, run: Made, held_up: HeldUp, keeper_time: KeeperTime
) -> None:
    create(timeline, *many(2))
    go_on = threading.Event()

    def handle(messages: Sequence[Lease]) -> None:
        if messages[0].id == "m1":
            go_on.wait(60)

    worker = run(handle, max_batch_size=1, **KeeperTime.OPTIONS)
    held_up.wait()
    keeper_time.extends("m0", "m1")  # one is being settled, one is still being handled
    held_up.go_on()
    go_on.set()
    until(lambda: worker.totals.done == 2)
    assert worker.totals.lost == 0


def test_what_is_being_settled_takes_room(timeline: Timeline, run: Made, held_up: HeldUp) -> None:
    create(timeline, *many(200))
    worker = run(Noted(), max_batch_size=5, concurrency=2)
    held_up.wait()
    other = timeline.consumer("other")
    taken = 0

    def takes() -> bool:
        nonlocal taken
        taken += len(other.delete(other.lease(200, 30)))
        return timeline.stats().new == 0

    until(takes)
    assert worker.totals.leased <= 20, "two slots of five run, two of five are being settled"
    held_up.go_on()
    until(lambda: worker.totals.done + taken == 200)


def test_what_cannot_be_read_is_kept_until_it_is_settled(
    timeline: Timeline, run: Made, held_up: HeldUp, keeper_time: KeeperTime
) -> None:
    create(timeline, *many(3))
    worker = run(Noted(), cost="units", max_attempts=1, **KeeperTime.OPTIONS)
    held_up.wait()
    until(lambda: worker.totals.leased == 3)
    keeper_time.extends("m0", "m1", "m2")
    held_up.go_on()
    until(lambda: worker.totals.dead == 3)
    assert set(dead(timeline)) == {"m0", "m1", "m2"}
