"""Everything that is stored has a bound, or a way to make room: each line of the table in
docs/failures.md."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from dispatcher.registration import EarlyMessageLog, MemoryEntityStore, RegistrationGate
from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases import COUNTERS
from limiters.leases._confirmed_clock import ConfirmedClock, Exchange
from limiters.leases._messages import Terms
from limiters.leases._scripts import keys_of, registry_key
from tests.commands import asks
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
SHORT = Terms.scalar(1_000, 100, 50, 200)
"""Milliseconds of period and lease, so that what is gone does not count any more."""

NUMBER = 300


def used(client: Any) -> int:
    return int(client.info("memory")["used_memory"])


def bytes_in_table(what: str) -> int:
    [(number,)] = [re.findall(r"([\d,]+) bytes", line) for line in table() if f"| {what} |" in line]
    return int(str(number).replace(",", ""))


def table() -> list[str]:
    section = PAGE.read_text("utf-8").partition("## What grows")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][2:]


class Instances:
    """Instances that ask once, hold something, and are silent from then on; and one that stays."""

    def __init__(self, manager: RedisLeaseManager) -> None:
        self._manager = manager
        self._nonce = self._server = ""
        self._clock = ConfirmedClock()
        self._ask("stays", 0)

    def fill(self, wave: int) -> None:
        for number in range(NUMBER):
            born = self._ask(f"{wave}-{number}", 1)
            self._ask(f"{wave}-{number}", 1, born=born, totals=(1.0,) * len(COUNTERS))

    def are_gone(self) -> bool:
        self._ask("stays", 0)
        view = self._manager.look()
        return view is not None and len(view.instances) <= 1

    def _ask(self, name: str, need: float, **more: Any) -> int:
        said = asks(name, need, label="h" * 40, **more)
        sent = time.monotonic()
        confirmed = self._clock.at(self._server, sent, span=60)
        one = replace(said, terms=SHORT, nonce=self._nonce, seq=time.monotonic_ns())
        reply = self._manager.sync(replace(one, server=self._server, confirmed=confirmed))
        took = time.monotonic() - sent
        self._clock.exchanges.append(Exchange(reply.server, reply.now, sent, took))
        self._nonce, self._server = reply.nonce or self._nonce, reply.server
        return reply.born


def a_limit_has_what_its_living_instances_take(server: EmbeddedRedis, client: Any) -> None:
    with closing(RedisLeaseManager(server.url, name="orders", timeout=10)) as manager:
        instances = Instances(manager)
        keys = keys_of("dispatcher", "orders")[:3]
        before = sum(client.memory_usage(key) or 0 for key in keys)
        instances.fill(0)
        full = sum(client.memory_usage(key) or 0 for key in keys)
        assert 0 < full - before < NUMBER * bytes_in_table("a limit")
        until(lambda: instances.are_gone() and client.hlen(keys[0]) <= 11)
        assert client.hlen(keys[1]) <= 1


def totals_are_one_sum_however_many_have_gone(server: EmbeddedRedis, client: Any) -> None:
    with closing(RedisLeaseManager(server.url, name="orders", timeout=10)) as manager:
        instances = Instances(manager)
        people = keys_of("dispatcher", "orders")[2]
        most = bytes_in_table("totals of instances that are gone")
        for wave in range(3):
            instances.fill(wave)
            # A server gives the room of a hash back step by step, with the calls that come later.
            until(lambda: instances.are_gone() and client.memory_usage(people) < most)
        view = manager.look()
        assert view is not None
        assert view.totals[0] >= 3 * NUMBER


def the_registry_has_one_field_a_name(server: EmbeddedRedis, client: Any) -> None:
    key = registry_key("dispatcher")
    before = client.memory_usage(key) or 0
    for number in range(NUMBER):
        with closing(RedisLeaseManager(server.url, name=f"limit-{number}", timeout=10)) as manager:
            manager.sync(replace(asks("one", 1), terms=SHORT))
            manager.delete()
    assert client.hlen(key) <= NUMBER + 2
    assert (client.memory_usage(key) or 0) - before < NUMBER * bytes_in_table("the registry")
    for number in range(NUMBER):  # once more with these names
        with closing(RedisLeaseManager(server.url, name=f"limit-{number}", timeout=10)) as manager:
            manager.sync(replace(asks("one", 1), terms=SHORT))
    assert client.hlen(key) <= NUMBER + 2


def the_guard_ends_with_its_limit(server: EmbeddedRedis, client: Any) -> None:
    keys = keys_of("dispatcher", "orders")
    with closing(RedisLeaseManager(server.url, name="orders", timeout=10)) as manager:
        manager.sync(replace(asks("one", 1), terms=SHORT))
        assert (
            0 < client.memory_usage(keys[3]) < bytes_in_table("the guard against the first format")
        )
        manager.delete()
    assert 0 < client.pttl(keys[3]) <= client.pttl(keys[0]) + 1_000


def the_dead_take_room_until_somebody_deletes_them(server: EmbeddedRedis, client: Any) -> None:
    timeline = Timeline(client, "jobs", buckets=4)
    producer, consumer = timeline.producer("us"), timeline.consumer("one")
    producer.create([Message("x", id="first")])
    consumer.bury(consumer.lease(1, 60), "no such user")
    before = used(client)
    producer.create([Message("x", id=f"dead-{number}") for number in range(5_000)])
    while leases := consumer.lease(1_000, 60):
        consumer.bury(leases, "no such user")
    assert timeline.stats().dead == 5_001
    assert used(client) - before < 5_000 * bytes_in_table("a Timeline's dead")
    operator, cursor = timeline.operator(), ""
    while timeline.stats().dead:
        seen, cursor = operator.list(1_000, cursor, states=["dead"])
        assert all(it.ok for it in operator.delete(seen))
    assert not [key for key in client.keys("*/*") if client.type(key) != b"hash"]
    assert {key.rpartition(b":")[2] for key in client.keys("*/*")} == {b"meta"}


def early_logs_are_no_longer_than_they_may_be(folder: Path) -> None:
    most = 20_000
    with (
        closing(EarlyMessageLog(folder, max_bytes=most, max_age=3_600)) as log,
        RegistrationGate(MemoryEntityStore(), early_log=log) as gate,
    ):
        for number in range(2_000):
            gate.offer(f"meter-{number % 50}", "x" * 50)
            if number % 100 == 0:
                assert size_of(folder) <= most
        assert 0 < size_of(folder) <= most


def size_of(folder: Path) -> int:
    return sum(it.stat().st_size for it in folder.rglob("*") if it.is_file())


FILLED: dict[str, Callable[..., None]] = {
    "a limit": a_limit_has_what_its_living_instances_take,
    "totals of instances that are gone": totals_are_one_sum_however_many_have_gone,
    "the guard against the first format": the_guard_ends_with_its_limit,
    "the registry": the_registry_has_one_field_a_name,
    "a Timeline's dead": the_dead_take_room_until_somebody_deletes_them,
    "early logs": early_logs_are_no_longer_than_they_may_be,
}


@pytest.mark.parametrize("what", [it for it in FILLED if it != "early logs"])
def test_what_is_in_redis_has_the_bound_that_the_table_says(
    own_redis: EmbeddedRedis, what: str
) -> None:
    with Redis.from_url(own_redis.url) as client:
        FILLED[what](own_redis, client)


def test_what_is_on_disk_has_the_bound_that_the_table_says(tmp_path: Path) -> None:
    early_logs_are_no_longer_than_they_may_be(tmp_path)


def test_each_line_of_the_table_is_filled() -> None:
    assert [line.split("|")[1].strip() for line in table()] == list(FILLED)
