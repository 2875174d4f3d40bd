"""A gate on Redis: large work is done in portions, and a change by one costs the others little."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from dispatcher.registration import (
    EntityStoreError,
    MemoryEntityStore,
    RedisEntityStore,
    Registration,
    RegistrationGate,
    Release,
)
from limiters._redis.script import Script
from limiters.embedded import EmbeddedRedis
from tests.servers.proxy import Proxy

MOST_COMMANDS = 2_000
"""Within one script; each takes about a microsecond."""


class CountingStore(RedisEntityStore):
    """Counts what each script does, and fails on request: then the server has not been
    asked."""

    def __init__(self, url: str, client: Any) -> None:
        super().__init__(url, name="plant", timeout=10, refresh=60)
        self.client = client
        self.commands: list[int] | None = None
        """Of each script, once it counts."""
        self.left: int | None = None
        """How many scripts are run before it fails."""

    def run(self, script: Script, arguments: list[str | bytes]) -> list[Any]:
        if self.left == 0:
            raise EntityStoreError("as if the process had ended here")
        self.left = None if self.left is None else self.left - 1
        if self.commands is None:
            return super().run(script, arguments)
        self.client.config_resetstat()
        try:
            return super().run(script, arguments)
        finally:
            stats = self.client.info("commandstats")
            self.commands.append(sum(one["calls"] for one in stats.values()))

    def count(self) -> list[int]:
        self.commands = []
        return self.commands


@pytest.fixture
def stores(
    shared_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> Iterator[Callable[[], CountingStore]]:
    made = []

    def make() -> CountingStore:
        made.append(CountingStore(shared_redis.url, connect(shared_redis.url)))
        return made[-1]

    yield make
    for store in made:
        store.close()


def gate(store: RedisEntityStore | MemoryEntityStore) -> RegistrationGate:
    return RegistrationGate(store, telemetry_per_entity=10_000)


def fill(one: RegistrationGate, seed: int = 0, count: int = 200) -> None:
    """A family of many generations, that waits for `top`; one of it has many messages."""
    chance = random.Random(seed)
    for number in range(count):
        parent = f"e{chance.randrange(number)}" if number and chance.random() < 0.7 else "top"
        one.register(f"e{number}", parent=parent, data=number)
        for message in range(chance.choice([0, 1, 5])):
            one.offer(f"e{number}", message, metadata=chance.random() < 0.3)
    for message in range(150):
        one.offer("e7", message)
        one.offer("top", message)


def abandon(client: Any) -> None:
    """Pretend that gates with unfinished work have been silent for long."""
    (key,) = client.keys("*:unfinished")
    for agenda in client.zrange(key, 0, -1):
        client.zadd(key, {agenda: 1})


# Look-ups.


def test_many_entities_are_looked_up_with_few_calls(
    shared_redis: EmbeddedRedis, proxy: Proxy
) -> None:
    names = [f"e{number}" for number in range(1_000)]
    one = RegistrationGate(RedisEntityStore(shared_redis.url, name="plant", timeout=10))
    one.register("top")
    one.register_many(Registration(name, "top") for name in names)
    new = RegistrationGate(RedisEntityStore(proxy.url, name="plant", timeout=10, refresh=600))
    before = proxy.requests["EVALSHA"]
    released = new.offer_many([(name, name) for name in names] + [("early", 1)])
    assert released == [Release(name, None, (name,)) for name in names]
    assert {new.topmost(name) for name in names} == {"top"}
    assert proxy.requests["EVALSHA"] - before <= 6
    assert new.pending == 1


def test_a_removal_by_another_costs_no_look_up_of_others(
    shared_redis: EmbeddedRedis, proxy: Proxy
) -> None:
    names = [f"e{number}" for number in range(500)]
    one = RegistrationGate(RedisEntityStore(shared_redis.url, name="plant", timeout=10))
    one.register_many(Registration(name) for name in names)
    other = RegistrationGate(RedisEntityStore(proxy.url, name="plant", timeout=10, refresh=600))
    other.offer_many((name, 1) for name in names)
    one.deregister("e77")
    one.register("e78", parent="e79")
    other.evict()  # as after `refresh`
    before = proxy.requests["EVALSHA"]
    passed = {release.entity for release in other.offer_many((name, 2) for name in names)}
    assert passed == {*names} - {"e77"}
    assert proxy.requests["EVALSHA"] - before == 2, "a look-up, and one that is held"
    assert other.topmost("e78") == "e79"


def test_more_changes_than_are_remembered_are_seen_as_well(
    shared_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    names = [f"e{number}" for number in range(1_300)]
    one, other = (
        RegistrationGate(RedisEntityStore(shared_redis.url, name="plant", timeout=10, refresh=600))
        for _ in range(2)
    )
    one.register("top")
    one.register("stays")
    one.register_many(Registration(name, "top") for name in names)
    other.offer_many((name, 1) for name in ["stays", *names])
    one.deregister("top")
    other.evict()  # more changes than one reply has
    assert [one.entity for one in other.offer_many((name, 2) for name in ["stays", *names])] == [
        "stays"
    ]
    # As if they were long ago: what is not remembered any more may be anything.
    other.register("e1")
    one.deregister("e1")
    client = connect(shared_redis.url)
    (totals,), (changes,) = client.keys("*:totals"), client.keys("*:changes")
    client.hset(totals, "forgotten", client.hget(totals, "generation"))
    client.delete(changes)
    other.evict()
    assert other.offer("e1", 3) == []
    assert other.offer("stays", 3)


# A large family.


@pytest.mark.parametrize("seed", range(3))
def test_r4_a_large_family_comes_out_in_portions_as_it_does_in_memory(
    stores: Callable[[], CountingStore], seed: int
) -> None:
    store = stores()
    shared, alone = gate(store), gate(MemoryEntityStore())
    for one in (shared, alone):
        fill(one, seed)
    commands = store.count()
    assert shared.register("top") == alone.register("top")
    assert len(commands) > 5
    assert max(commands) <= MOST_COMMANDS
    assert shared.pending == alone.pending == 0
    assert shared.counts["released"] == alone.counts["released"]
    commands = store.count()
    assert sorted(shared.deregister("top")) == sorted(alone.deregister("top"))
    assert len(commands) > 2
    assert max(commands) <= MOST_COMMANDS


def test_nothing_of_a_large_family_is_left(
    stores: Callable[[], CountingStore], connect: Callable[[str], Redis]
) -> None:
    store = stores()
    one = gate(store)
    fill(one)
    commands = store.count()
    one.register("top")
    one.deregister("top")
    one.evict()
    left = {str(key, "utf-8").rpartition(":")[2] for key in store.client.keys("*{*}*")}
    assert left == {"changes", "totals", "replies", "heard"}
    assert max(commands) <= MOST_COMMANDS


@pytest.mark.parametrize("portions", [1, 4, 7])
def test_r4_what_a_gate_that_is_gone_had_begun_comes_out_of_another_from_the_beginning(
    stores: Callable[[], CountingStore], portions: int
) -> None:
    store, alone = stores(), gate(MemoryEntityStore())
    gone, other = gate(store), gate(stores())
    for one in (gone, alone):
        fill(one)
    store.left = portions
    with pytest.raises(EntityStoreError):
        gone.register("top")
    assert other.offer("early", 1) == [], "it may still be at it"
    mark = other.sequence
    abandon(store.client)
    expected = alone.register("top")
    assert other.offer("early", 2) == expected
    # What is returned again has new numbers
    again = [one.registration.entity for one in other.emissions_since(mark)]
    assert sorted(again) == sorted(one.entity for one in expected)
    # The first one was only slow: it has nothing to hand out any more.
    store.left = None
    assert gone.register("top") == []
    assert gone.offer("e7", 1) == [Release("e7", None, (1,))]


def test_r4_a_gate_that_could_not_reach_redis_hands_all_of_it_out_later(
    stores: Callable[[], CountingStore],
) -> None:
    store, alone = stores(), gate(MemoryEntityStore())
    one = gate(store)
    for each in (one, alone):
        fill(each)
    store.left = 5
    with pytest.raises(EntityStoreError):
        one.register("top")
    store.left = None
    assert one.register("top") == alone.register("top")


def test_r4_what_comes_for_a_family_in_the_midst_of_its_release_comes_out_behind(
    stores: Callable[[], CountingStore],
) -> None:
    store, other = stores(), gate(stores())
    one = gate(store)
    for number in range(100):
        one.offer("top", number)
        one.register(f"e{number}", parent="top")
        one.offer(f"e{number}", "first")
    store.left = 1
    with pytest.raises(EntityStoreError):
        one.register("top")
    for number in range(100):
        other.offer(f"e{number}", "second")
    store.left = None
    out = {release.entity: release.messages for release in one.register("top")}
    passed = [number for number in range(100) if "second" not in out[f"e{number}"]]
    assert all(out[f"e{number}"][0] == "first" for number in range(100))
    assert 0 < len(passed) < 100, "those that had their turn were registered: their messages pass"


def test_a_child_below_a_parent_in_the_midst_of_its_removal_waits_for_it(
    stores: Callable[[], CountingStore],
) -> None:
    store, other = stores(), gate(stores())
    one = gate(store)
    one.register("top")
    one.register_many(Registration(f"e{number}", "top") for number in range(300))
    one.register("grandchild", parent="e299")
    store.left = 1
    with pytest.raises(EntityStoreError):
        one.deregister("top")
    assert other.register("grandchild", parent="e299") == [], "seen again, but its place is gone"
    store.left = None
    one.evict()
    assert one.offer("e299", 1) == other.register("e299", parent="top") == []
    assert [release.entity for release in other.register("top")] == ["top", "e299", "grandchild"]


# What is dropped.


def test_r5_much_that_is_too_old_is_dropped_in_portions_and_never_comes_out(
    stores: Callable[[], CountingStore],
) -> None:
    store = stores()
    one = RegistrationGate(store, max_age=3600)
    for number in range(200):
        one.register(f"e{number}", parent="top")
        one.offer(f"e{number}", number)
    (since,) = store.client.keys("*:since")
    for entity in store.client.hkeys(since):
        store.client.hset(since, entity, 0)
    commands = store.count()
    assert one.register("e199", parent="top") == []
    assert [release.entity for release in one.register("top")] == ["top", "e199"]
    assert one.evict() + one.counts["dropped"].telemetry >= 200
    assert one.pending == 0
    assert one.counts["dropped"] == (200, 0, 200)
    assert max(commands) <= MOST_COMMANDS


def test_r2_a_gate_with_lower_bounds_drops_few_with_each_call(
    stores: Callable[[], CountingStore],
) -> None:
    high = RegistrationGate(stores())
    low = RegistrationGate(stores(), pending_entities=10)
    for number in range(200):
        high.offer(f"e{number}", number)
    dropped = [0]
    for number in range(30):
        low.offer(f"f{number}", number)
        dropped.append(low.counts["dropped"].telemetry)
    assert max(after - before for before, after in itertools.pairwise(dropped)) <= 20
    assert low.pending == 10
    assert dropped[-1] == 220


def test_a_message_that_is_held_takes_few_commands(stores: Callable[[], CountingStore]) -> None:
    """Stored data is examined once a second, and before something is removed."""
    store = stores()
    shared = gate(store)
    shared.offer("meter", 0)
    commands = store.count()
    for number in range(9):
        shared.offer("meter", number)
    assert statistics.median(commands) <= 25
