"""A gate on Redis whatever its keys contain: each call heals, or says clearly what is wrong. None
keeps failing or hangs, and no entity is given messages of another."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from dispatcher.registration import (
    EntityStoreError,
    RedisEntityStore,
    Registration,
    RegistrationCycleError,
    RegistrationGate,
    Release,
)
from dispatcher.registration.stores.redis import KEYS
from limiters._redis.script import Script
from limiters.embedded import EmbeddedRedis
from tests.hostile import keys
from tests.samples import grid, sample

MOST_SCRIPTS = 60
"""That one call may need."""

DAMAGES = [kind for kind in keys.KINDS if kind != keys.ANOTHER_TYPE]


class HangingError(BaseException):
    """A call goes on and on."""


class WatchedStore(RedisEntityStore):
    """Counts scripts, and has something happen before one of them."""

    def __init__(self, url: str) -> None:
        super().__init__(url, name="plant", timeout=10, refresh=1e-9)
        self.count = 0
        self.most = MOST_SCRIPTS
        self.before: Callable[[int], object] = lambda count: None

    def run(self, script: Script, arguments: list[str | bytes]) -> list[Any]:
        self.count += 1
        if self.count > self.most:
            raise HangingError
        self.before(self.count)
        return super().run(script, arguments)


class StoppedError(BaseException):
    """The process ends here."""


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as made:
        yield made


@pytest.fixture(scope="module")
def kept(server: EmbeddedRedis) -> keys.Kept:
    """A gate in the middle of everything: each of its keys has something in it."""
    store = WatchedStore(server.url)
    store.most = 1_000
    gate = RegistrationGate(store)
    for number in range(6):
        gate.register(f"in/{number}", parent=f"in/{number - 1}" if number else None)
        for message in range(3):
            gate.offer(f"early/{number}", f"early/{number} {message}")
            gate.offer(f"early/{number}", f"early/{number} {message}", metadata=True)
        gate.register(f"child/{number}", parent="top", data={"number": number})
        gate.offer(f"child/{number}", f"child/{number} 1")
    gate.register("in/6")
    gate.deregister("in/6")
    # A process that ended in the middle of a family that it had set free.
    for number in range(40):
        gate.register(f"left/{number}", parent="left")
        gate.offer(f"left/{number}", f"left/{number} 1")
    store.count = 0

    def stop(count: int) -> None:
        if count == 3:
            raise StoppedError

    store.before = stop
    with pytest.raises(StoppedError):
        gate.register("left")
    store.close()
    with Redis.from_url(server.url) as client:
        client.zadd(key_of("garbage"), {"0" * 14 + "7": 0})
        client.zadd(
            key_of("unfinished"), dict.fromkeys(client.zrange(key_of("unfinished"), 0, -1), 1)
        )
        made = keys.Kept(client)
    assert {key.decode() for key in made.keys} >= set(map(key_of, KEYS))
    return made


def key_of(name: str) -> str:
    return f"dispatcher:v3:{{plant}}:gate:{name}"


@pytest.fixture(scope="module")
def client(server: EmbeddedRedis) -> Iterator[Any]:
    with Redis.from_url(server.url) as made:
        yield made


CALLS: dict[str, Callable[[RegistrationGate], object]] = {
    "offer early": lambda gate: gate.offer("early/2", "early/2 4"),
    "offer metadata": lambda gate: gate.offer("early/3", "early/3 4", metadata=True),
    "offer known": lambda gate: gate.offer("in/3", "in/3 1"),
    "offer new": lambda gate: gate.offer("new", "new 1"),
    "offer many": lambda gate: gate.offer_many([("in/1", "in/1 1"), ("new", "new 1")]),
    "register early": lambda gate: gate.register("early/1"),
    "register parent": lambda gate: gate.register("top"),
    "register child": lambda gate: gate.register("new", parent="in/5", data=1),
    "register many": lambda gate: gate.register_many(
        [Registration("early/4", "in/2"), Registration("top"), Registration("in/1", "in/0", 7)]
    ),
    "register again": lambda gate: gate.register("in/4", parent="in/3"),
    "deregister": lambda gate: gate.deregister("in/1"),
    "evict": lambda gate: gate.evict(),
    "pending": lambda gate: gate.pending,
    "topmost": lambda gate: gate.topmost("in/4"),
    "emissions": lambda gate: gate.emissions_since(0),
}

BOUNDS: list[dict[str, Any]] = [
    {},
    {
        "telemetry_limit": 24,
        "metadata_limit": 18,
        "pending_entities": 12,
    },  # what is held is at them
    {"max_age": 0.001},
]


def called(gate: RegistrationGate, call: Callable[[RegistrationGate], object]) -> str:
    """The error that a call raises, "" if it raises none."""
    try:
        result = call(gate)
    except (EntityStoreError, RegistrationCycleError) as error:
        said = str(error)
        for word in ("user_script", "attempt to", "nil", "bad argument", "cannot be used"):
            assert word not in said, said
        return said
    for release in result if isinstance(result, list) else []:
        if isinstance(release, Release):
            for message in release.messages:
                assert message.split(" ")[0] == release.entity, "it belongs to another program"
    return ""


def works(gate: RegistrationGate, store: WatchedStore) -> None:
    """All that a gate is for: whatever was, this must be right."""
    store.count = 0
    assert gate.register("fresh") or gate.offer("fresh", "fresh 0")
    assert Release("fresh", None, ("fresh 1",)) in gate.offer("fresh", "fresh 1")
    assert gate.offer("later", "later 1") is not None
    assert gate.offer("later", "later 2", metadata=True) is not None
    given = [one for one in gate.register("later", parent="fresh") if one.entity == "later"]
    assert [one.messages for one in given] == [("later 2", "later 1")]
    assert "fresh" in {one.registration.entity for one in gate.emissions_since(0)}
    assert set(gate.deregister("fresh")) >= {"fresh", "later"}
    assert gate.pending >= 0


@pytest.mark.parametrize(("name", "kind"), grid(KEYS, DAMAGES, every=11))
def test_each_call_heals_or_says_what_is_wrong(
    kept: keys.Kept, client: Any, server: EmbeddedRedis, name: str, kind: str
) -> None:
    for number, call in enumerate(CALLS.values()):
        kept.put_back()
        chance = random.Random(f"{name} {kind} {number}")
        if not keys.damage(client, key_of(name), kind, chance):
            return  # a hash has no scores, a key without values none to change
        judged(server, call, BOUNDS[number % len(BOUNDS)])


def judged(
    server: EmbeddedRedis, call: Callable[[RegistrationGate], object], bounds: dict[str, Any]
) -> None:
    store = WatchedStore(server.url)
    gate = RegistrationGate(store, **bounds)
    said = called(gate, call)
    store.count = 0
    assert not said or not called(gate, call), "it keeps failing"
    works(RegistrationGate(store), store)
    store.close()


@pytest.mark.parametrize("name", [one for one in KEYS if one != "changes"])
def test_a_key_of_another_type_is_named(
    kept: keys.Kept, client: Any, server: EmbeddedRedis, name: str
) -> None:
    """It may belong to another program: it is not deleted."""
    kept.put_back()
    store = WatchedStore(server.url)
    gate = RegistrationGate(store)
    keys.damage(client, key_of(name), keys.ANOTHER_TYPE, random.Random(1))
    for call in (gate.evict, lambda: gate.offer("new", 1), lambda: RegistrationGate(store)):
        with pytest.raises(EntityStoreError, match=f"has something else under .*:{name};"):
            call()
    store.delete()
    works(RegistrationGate(store), store)


@pytest.mark.parametrize(("name", "place"), grid(KEYS, [2, 3, 4], every=3))
def test_a_key_that_is_evicted_in_the_middle_of_a_call(
    kept: keys.Kept, client: Any, server: EmbeddedRedis, name: str, place: int
) -> None:
    for call in CALLS.values():
        kept.put_back()
        store = WatchedStore(server.url)
        gate = RegistrationGate(store)
        store.count = 0
        store.before = lambda count: count == place and client.delete(key_of(name))
        assert called(gate, call) == ""
        store.before = lambda count: None
        works(RegistrationGate(store), store)
        store.close()


@pytest.mark.parametrize("seed", sample(range(30), every=6))
def test_several_keys_together(
    kept: keys.Kept, client: Any, server: EmbeddedRedis, seed: int
) -> None:
    chance = random.Random(seed)
    for call in CALLS.values():
        kept.put_back()
        for name in chance.sample(KEYS, 4):
            keys.damage(client, key_of(name), chance.choice(DAMAGES), chance)
        judged(server, call, chance.choice(BOUNDS))


def sums(gate: RegistrationGate, *names: str) -> list[int]:
    return [sum(kind) for kind in zip(*(gate.counts[name] for name in names), strict=True)]


@pytest.mark.parametrize("kind", ["missing", "halved", "of another format", "nested deep"])
@pytest.mark.parametrize(
    "name", ["messages", "order", "pending", "telemetry", "metadata", "totals"]
)
def test_r5_what_is_lost_is_reported_and_counted(
    shared_redis: EmbeddedRedis, name: str, kind: str
) -> None:
    gate = RegistrationGate(RedisEntityStore(shared_redis.url, name="plant"))
    for number in range(4):
        for message in range(3):
            gate.offer(f"e{number}", f"e{number} {message}")
            gate.offer(f"e{number}", f"e{number} {message}", metadata=True)
        gate.register(f"e{number}", parent="top")
    with Redis.from_url(shared_redis.url) as client:
        keys.damage(client, key_of(name), kind, random.Random(1))
        if name == "totals":
            client.hdel(key_of(name), "number")  # one half or the other is left
    released = gate.register("top")
    assert "top" in {one.entity for one in released}
    for number in range(4):
        gate.register(f"e{number}", parent="top")
    gate.evict()
    if name != "totals":  # that is where it is noted how much there is
        assert sums(gate, "held") == sums(gate, "released", "displaced", "dropped", "corrupt")
    assert sums(gate, "corrupt") != [0, 0, 0] or kind == "of another format"
    gate.close()


@pytest.mark.parametrize("value", [2**40 - 1, 2**40, 10**15, 9007199254740000, 2**53 - 1])
@pytest.mark.parametrize("field", ["number", "sequence", "generation", "forgotten"])
def test_a_number_that_is_too_large_is_damage(
    kept: keys.Kept, client: Any, server: EmbeddedRedis, field: str, value: int
) -> None:
    kept.put_back()
    client.hset(key_of("totals"), field, value)
    store = WatchedStore(server.url)
    gate = RegistrationGate(store)
    for number in range(3):
        store.count = 0
        gate.offer("sender", f"sender {number}")
    [released] = gate.register("sender")
    assert released.messages == ("sender 0", "sender 1", "sender 2")
    works(gate, store)
    store.close()


def test_one_unreadable_message_costs_itself_alone(shared_redis: EmbeddedRedis) -> None:
    gate = RegistrationGate(RedisEntityStore(shared_redis.url, name="plant"))
    for message in range(3):
        gate.offer("parent", f"parent {message}")
        gate.offer("parent", f"parent {message}", metadata=True)
    gate.register("child", parent="parent", data=1)
    gate.offer("child", "child 1")
    with Redis.from_url(shared_redis.url) as client:
        for text, value in client.hgetall(key_of("messages")).items():
            if value.endswith(b'"parent 1"'):
                client.hset(key_of("messages"), text, b'{"bytes":"x')
    assert gate.register("parent") == [
        Release("parent", Registration("parent"), ("parent 0", "parent 2", "parent 0", "parent 2")),
        Release("child", Registration("child", "parent", 1), ("child 1",)),
    ]
    assert gate.counts["corrupt"] == (0, 1, 1)
    assert sums(gate, "held") == sums(gate, "released", "corrupt")
    gate.close()


def test_an_unreadable_registration_costs_its_data_alone(shared_redis: EmbeddedRedis) -> None:
    gate = RegistrationGate(RedisEntityStore(shared_redis.url, name="plant"))
    for number in range(3):
        gate.register(f"child/{number}", parent="parent", data={"a": number})
        gate.offer(f"child/{number}", f"child/{number} 1")
    with Redis.from_url(shared_redis.url) as client:
        value: Any = client.hget(key_of("registrations"), "child/1")
        client.hset(key_of("registrations"), "child/1", value.replace(b'"dict"', b'"dikt"'))
    released = gate.register("parent")
    assert [one.entity for one in released] == ["parent", "child/0", "child/1", "child/2"]
    assert [one.registration for one in released if one.entity == "child/1"] == [None]
    assert released[2].messages == ("child/1 1",)
    assert gate.counts["corrupt"] == (1, 0, 0)
    assert len(gate.emissions_since(0)) == 3
    assert gate.register("child/1", parent="parent", data={"a": 1})[0].registration is not None
    assert len(gate.emissions_since(0)) == 4
    gate.close()


@pytest.mark.parametrize("data", ["\ud800", {"\udfff": 1}, "\0", 10**400, 1e308, "\u2028"])
def test_data_that_json_writes_in_odd_ways_comes_out_as_it_went_in(
    shared_redis: EmbeddedRedis, data: Any
) -> None:
    gate = RegistrationGate(RedisEntityStore(shared_redis.url, name="plant"))
    gate.offer("meter", data)
    gate.register("meter", parent='a "house\\', data=data)
    assert gate.register('a "house\\')[1] == Release(
        "meter", Registration("meter", 'a "house\\', data), (data,)
    )
    assert gate.topmost("meter") == 'a "house\\'
    gate.close()


def test_what_cannot_be_read_again_is_refused_when_it_is_offered(
    shared_redis: EmbeddedRedis,
) -> None:
    gate = RegistrationGate(RedisEntityStore(shared_redis.url, name="plant"))
    deep: Any = 1
    for _ in range(330):
        deep = {"a": deep}
    with pytest.raises(ValueError, match="message must be at most 100"):
        gate.offer("meter", deep)
    with pytest.raises(ValueError, match="data must be at most 100"):
        gate.register("meter", data=deep)
    assert gate.pending == 0
    gate.close()


@pytest.mark.parametrize("name", ["changes", "entities"])
def test_a_removal_is_seen_by_other_gates_whatever_is_evicted(
    shared_redis: EmbeddedRedis, name: str
) -> None:
    store = RedisEntityStore(shared_redis.url, name="plant", refresh=1e-9)
    other = RegistrationGate(store)
    gate = RegistrationGate(RedisEntityStore(shared_redis.url, name="plant"))
    gate.register("meter")
    assert other.offer("meter", 1) == other.offer("meter", 1) != []
    gate.deregister("meter")
    with Redis.from_url(shared_redis.url) as client:
        client.delete(key_of(name))
    assert other.offer("meter", 2) == []
    gate.close()
    other.close()
