"""One gate of many processes: what Redis answers is what one process alone would have."""

from __future__ import annotations

import pickle
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from dispatcher.registration import (
    AutoRegistrationConflictError,
    EarlyMessageLog,
    EntityStoreError,
    MemoryEntityStore,
    RedisEntityStore,
    Registration,
    RegistrationCycleError,
    RegistrationGate,
    Release,
)
from dispatcher.registration._model.emissions import Emission
from dispatcher.registration.stores.redis import NEEDS
from limiters.embedded import EmbeddedRedis
from tests.servers.cluster import ClusterRedis
from tests.servers.ports import own_port
from tests.servers.proxy import Proxy
from tests.servers.tls import TlsRedis
from tests.waiting import until


def gate(server: EmbeddedRedis | Proxy, **options: Any) -> RegistrationGate:
    refresh = options.pop("refresh", 60.0)
    store = RedisEntityStore(server.url, name="plant", refresh=refresh)
    return RegistrationGate(store, **options)


def warm(server: Proxy) -> RegistrationGate:
    """One whose scripts the server has: the reply that is lost is not that it has not."""
    one = gate(server)
    one.offer("warm", 1)
    one.register("warm")
    return one


def registered(one: RegistrationGate, entity: str, parent: str | None, data: object) -> Any:
    try:
        return one.register(entity, parent=parent, data=data)
    except RegistrationCycleError as error:
        return str(error)


def book(gates: list[RegistrationGate], name: str) -> list[int]:
    return [sum(kind) for kind in zip(*(one.counts[name] for one in gates), strict=True)]


@pytest.mark.parametrize("seed", range(12))
def test_r9_random_histories_of_two_gates_are_those_of_one_in_memory(
    shared_redis: EmbeddedRedis, seed: int
) -> None:
    chance = random.Random(seed)
    bounds: dict[str, Any] = {
        "telemetry_limit": chance.randint(1, 8),
        "telemetry_per_entity": chance.randint(1, 4),
        "metadata_limit": chance.randint(1, 6),
        "pending_entities": chance.randint(1, 6),
        "max_age": 3600,
    }
    alone = RegistrationGate(MemoryEntityStore(), **bounds)
    # They ask each time, so each sees a removal by the other immediately.
    both = [gate(shared_redis, refresh=1e-6, **bounds) for _ in range(2)]
    names = ["a", "b", "c", "ab", "1:a", "ü\0-", "d"]
    for number in range(300):
        one, name = chance.choice(both), chance.choice(names)
        kind = chance.random()
        if kind < 0.5:
            metadata = chance.random() < 0.4
            body = chance.choice([number, {"v": [number, b"\0"]}])
            mine, other = (each.offer(name, body, metadata=metadata) for each in (one, alone))
        elif kind < 0.92:
            parent = chance.choice([None, *names])
            data = chance.choice([None, {"x": "é\U0001f600"}])
            mine, other = (registered(each, name, parent, data) for each in (one, alone))
        else:
            removed, expected = (sorted(each.deregister(name)) for each in (one, alone))
            assert removed == expected
            mine = other = []
        assert mine == other, number
        assert one.pending == alone.pending
        assert one.topmost(name) == alone.topmost(name)
    for name in alone.counts:
        assert book(both, name) == list(alone.counts[name]), name
    for one in both:
        one.close()


def test_r9_what_one_holds_is_released_by_the_other(shared_redis: EmbeddedRedis) -> None:
    one, other = gate(shared_redis), gate(shared_redis)
    one.offer("meter", {"t": 21.5})
    other.offer("meter", "twin", metadata=True)
    one.register("meter", parent="house", data={"id": 1})
    assert other.register("house") == [
        Release("house", Registration("house"), ()),
        Release("meter", Registration("meter", "house", {"id": 1}), ("twin", {"t": 21.5})),
    ]
    assert one.offer("meter", 1) == other.offer("meter", 1) == [Release("meter", None, (1,))]
    assert one.topmost("meter") == other.topmost("meter") == "house"
    assert one.pending == other.pending == 0


def test_r9_parent_and_child_registered_together_come_out_once_and_in_order(
    shared_redis: EmbeddedRedis,
) -> None:
    gates = [gate(shared_redis) for _ in range(4)]
    meet = threading.Barrier(len(gates))
    out: list[tuple[int, str]] = []

    def run(level: int) -> None:
        for number in range(30):
            meet.wait()
            parent = f"{number}.{level - 1}" if level else None
            for release in gates[level].register(f"{number}.{level}", parent=parent):
                out.append((number, release.entity))

    threads = [threading.Thread(target=run, args=(level,)) for level in range(len(gates))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(out) == [(n, f"{n}.{level}") for n in range(30) for level in range(4)]
    assert gates[0].pending == 0


def test_r9_a_reply_that_is_lost_loses_nothing_and_does_nothing_twice(
    shared_redis: EmbeddedRedis, proxy: Proxy
) -> None:
    one = warm(proxy)
    proxy.lose_next_reply("EVALSHA")
    one.offer("a", 1)
    one.offer("a", 2)
    proxy.lose_next_reply("EVALSHA")
    (release,) = one.register("a")
    assert release.messages == (1, 2)
    assert one.counts["released"].telemetry == one.counts["held"].telemetry == 3
    assert proxy.lost == 2


def test_r9_what_a_call_set_free_whose_reply_was_lost_twice_comes_with_the_next(
    shared_redis: EmbeddedRedis, proxy: Proxy
) -> None:
    one = warm(proxy)
    one.offer("a", 1)
    proxy.lose_next_reply("EVALSHA")
    proxy.lose_next_reply("EVALSHA")
    with pytest.raises(EntityStoreError, match="cuts the connection"):
        one.register("a")
    assert one.register("a") == [Release("a", Registration("a"), (1,))]
    assert one.register("a") == []


def test_r9_while_redis_is_away_who_is_registered_passes_and_others_get_an_error(
    shared_redis: EmbeddedRedis, proxy: Proxy
) -> None:
    one = gate(proxy, refresh=1e-6)
    one.register("a")
    one.offer("b", 1)
    proxy.refuse()
    assert one.offer("a", 1) == [Release("a", None, (1,))]
    with pytest.raises(EntityStoreError, match=r"refuses connections|cuts the connection"):
        one.offer("b", 2)
    proxy.accept()
    assert one.register("b")[0].messages == (1, 2)


def test_r9_a_removal_by_another_is_seen(shared_redis: EmbeddedRedis) -> None:
    one, other = gate(shared_redis, refresh=0.01), gate(shared_redis)
    one.register("top")
    one.register("a", parent="top")
    assert one.offer("a", 1)
    assert other.deregister("top") == ["top", "a"]
    until(lambda: one.offer("a", 1) == [])
    assert one.register("a", parent="top") == []


def test_r9_a_change_of_parent_by_another_changes_the_topmost(
    shared_redis: EmbeddedRedis,
) -> None:
    one, other = gate(shared_redis, refresh=0.01), gate(shared_redis)
    for entity, parent in [("x", None), ("y", None), ("a", "x"), ("b", "a")]:
        one.register(entity, parent=parent)
    assert one.topmost("b") == "x"
    other.register("a", parent="y")

    def follows() -> bool:
        one.offer("b", 1)
        return one.topmost("b") == "y"

    until(follows)


def test_r5_and_r9_what_is_held_too_long_is_dropped_by_the_servers_clock(
    shared_redis: EmbeddedRedis,
) -> None:
    one, other = (gate(shared_redis, max_age=0.02) for _ in range(2))
    one.offer("a", 1)
    one.register("b", parent="x")
    until(lambda: other.evict() + one.evict() >= 0 and one.pending == 0)
    assert book([one, other], "dropped") == [1, 0, 1]
    assert one.register("a")[0].messages == ()


def test_r6_and_r9_a_gate_that_comes_later_has_all(shared_redis: EmbeddedRedis) -> None:
    one = gate(shared_redis)
    one.register("a", data=1)
    one.offer("b", "early")
    one.close()
    later = gate(shared_redis)
    assert later.register("a", data=1) == []
    assert later.offer("a", 1) == [Release("a", None, (1,))]
    assert later.register("b")[0].messages == ("early",)


def test_r8_and_r9_all_gates_of_a_name_agree_on_auto_registration(
    shared_redis: EmbeddedRedis,
) -> None:
    one = gate(shared_redis, auto_register=True)
    assert one.offer("a", 1) == [Release("a", Registration("a"), (1,))]
    with pytest.raises(AutoRegistrationConflictError):
        one.register("a", parent="b")
    with pytest.raises(AutoRegistrationConflictError, match="do not agree"):
        gate(shared_redis)
    other = gate(shared_redis, auto_register=True)
    assert other.offer("a", 2) == [Release("a", None, (2,))]


def test_nothing_is_left_of_what_was_released(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    one = gate(own_redis)
    for number in range(10):
        one.offer("a", number)
        one.offer("a", number, metadata=True)
    one.register("a", parent="b")
    one.register("b")
    client = connect(own_redis.url)
    left = {str(key).rstrip("'").rpartition(":")[2] for key in client.keys("*{*}*")}
    assert left == {"entities", "children", "emitted", "totals", "replies", "heard"}
    store = RedisEntityStore(own_redis.url, name="plant")
    store.delete()
    assert client.keys("*{*}*") == []


def test_in_a_cluster(cluster_redis: ClusterRedis) -> None:
    url = cluster_redis.url.replace("redis://", "redis+cluster://").rpartition("/")[0]
    one = RegistrationGate(RedisEntityStore(url, name="plant"))
    one.offer("a", 1)
    assert one.register("a")[0].messages == (1,)
    one.close()


def test_by_tls(tls_redis: TlsRedis) -> None:
    url = f"{tls_redis.url}?ssl_ca_certs={tls_redis.authority}"
    one = RegistrationGate(RedisEntityStore(url, name="plant"))
    assert one.register("a")
    one.close()


def test_a_user_who_may_do_just_what_is_listed(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    client: Any = connect(own_redis.url)
    rules = NEEDS.rules("dispatcher").split()
    client.execute_command("ACL", "SETUSER", "gate", "on", ">secret", *rules)
    url = own_redis.url.replace("://", "://gate:secret@")
    one = RegistrationGate(RedisEntityStore(url, name="plant"), telemetry_limit=1)
    one.offer("a", 1)
    one.offer("b", 2)
    one.register("b", parent="a")
    one.register("a")
    one.deregister("a")
    assert one.pending == 0
    RedisEntityStore(url, name="plant").delete()
    client.acl_setuser(
        "gate", enabled=True, passwords=["+secret"], keys=["dispatcher:*"], commands=["-@all"]
    )
    with pytest.raises(
        EntityStoreError, match=r"does not allow this user .* [+]zrangebylex .*[+]select"
    ):
        one.offer("a", 1)


def test_a_redis_that_cannot_be_used_is_reported_when_the_gate_is_created() -> None:
    store = RedisEntityStore(f"redis://:secret@127.0.0.1:{own_port()}", name="plant")
    with pytest.raises(EntityStoreError, match="refuses connections") as caught:
        RegistrationGate(store)
    assert "secret" not in str(caught.value)


def test_a_request_that_the_server_refuses_does_not_stay_in_the_way(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    one = gate(own_redis)
    client = connect(own_redis.url)
    client.config_set("maxmemory", 1)
    with pytest.raises(EntityStoreError, match="has no memory left"):
        one.offer("a", 1)
    client.config_set("maxmemory", 0)
    assert one.offer("a", 2) == []
    assert one.register("a")[0].messages == (2,)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_redis_that_is_full_can_be_emptied_by_a_gate(
    own_redis: EmbeddedRedis, connect: Callable[[str], Redis], is_new: bool
) -> None:
    before = gate(own_redis)
    before.register_many([Registration(name) for name in ("house", "shed")])
    before.register("window", parent="shed")
    for name in ("meter", "other"):
        for number in range(90):
            before.offer(name, number)
    before.register("door", parent="gone")
    before.register("lock", parent="door")
    before.offer("lock", "early")
    client = connect(own_redis.url)
    if is_new:
        client.script_flush()
    client.config_set("maxmemory", 1)
    one = gate(own_redis) if is_new else before
    pending = one.pending

    # What needs memory is refused, and changes nothing.
    for name in ("new", "meter"):
        with pytest.raises(
            EntityStoreError, match="has no memory left; free some, or give it more"
        ):
            one.offer(name, 1)
    for refused in (
        Registration("new"),
        Registration("new", "nobody"),
        Registration("house", None, 1),
        Registration("door", "another"),
    ):
        with pytest.raises(
            EntityStoreError, match="has no memory left; free some, or give it more"
        ):
            one.register_many([refused])
    assert (one.pending, one.counts["dropped"]) == (pending, (0, 0, 0))

    # What frees some, or needs none, is not.
    assert one.offer("house", 1) == [Release("house", None, (1,))]
    assert one.register("house") == one.register("lock", parent="door") == []
    assert [len(release.messages) for release in one.register("meter", data={"id": 1})] == [90]
    with pytest.raises(EntityStoreError, match="has no memory left"):
        one.register_many([Registration("other"), Registration("new")])
    assert [release.entity for release in one.register("gone")] == ["other", "gone", "door", "lock"]
    assert one.deregister("shed") == ["shed", "window"]
    assert one.evict() == 0
    assert len(one.emissions_since(0)) == 6

    client.config_set("maxmemory", 0)
    assert one.pending == 0
    assert one.register("new")[0].entity == "new"
    assert one.counts["corrupt"] == (0, 0, 0)
    one.evict()
    assert client.hlen("dispatcher:v3:{plant}:gate:messages") == 0


@pytest.mark.parametrize("option", [{"name": ""}, {"prefix": "{x}"}, {"timeout": 0}])
def test_options_are_checked(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(ValueError, match=f"{name} must"):
        RedisEntityStore("redis://localhost", **{"name": "plant", **option})


def test_an_early_log_is_not_for_a_gate_that_is_shared(
    shared_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    log = EarlyMessageLog(tmp_path, max_bytes=100, max_age=1)
    with pytest.raises(ValueError, match="early_log must be None with a RedisEntityStore"):
        gate(shared_redis, early_log=log)
    log.close()


def test_a_store_can_be_sent_to_another_process_and_shows_no_password() -> None:
    store = pickle.loads(pickle.dumps(RedisEntityStore("redis://:secret@db:1/0", name="plant")))
    assert repr(store) == "RedisEntityStore('plant', at 'redis://db:1/0')"


def test_a_mark_from_before_redis_forgot_hides_nothing(shared_redis: EmbeddedRedis) -> None:
    one = gate(shared_redis)
    for number in range(5):
        one.register(f"e{number}")
    mark = one.sequence
    with Redis.from_url(shared_redis.url) as client:
        client.flushall()
    one.register("new")
    assert one.sequence == 1
    assert one.emissions_since(mark) == [Emission(1, Registration("new"))]
    one.close()


@pytest.mark.parametrize("seed", range(20))
def test_r9_many_registrations_in_one_call_are_as_one_after_the_other(
    shared_redis: EmbeddedRedis, seed: int
) -> None:
    """Even if one of them is of an entity that another one releases."""
    chance = random.Random(seed)
    names = ["a", "b", "c", "d", "e"]
    shared, alone = gate(shared_redis), RegistrationGate(MemoryEntityStore())
    for _ in range(20):
        some = [
            Registration(chance.choice(names), chance.choice([None, *names]), chance.randrange(2))
            for _ in range(chance.randint(1, 6))
        ]
        try:
            expected = [
                release
                for entity, parent, data in some
                for release in alone.register(entity, parent=parent, data=data)
            ]
        except RegistrationCycleError as error:
            with pytest.raises(RegistrationCycleError, match=str(error)):
                shared.register_many(some)
            break
        assert shared.register_many(some) == expected
        assert shared.pending == alone.pending
    shared.close()


def test_r6_one_that_waits_and_is_seen_again_keeps_its_place(shared_redis: EmbeddedRedis) -> None:
    a, c, b = Registration("a", "b"), Registration("c", "b"), Registration("b")
    one = gate(shared_redis)
    for calls in ([[a, c, a, b]], [[a, c, a], [b]], [[a, c], [a, b]], [[a, c], [a], [b]]):
        released = [release for call in calls for release in one.register_many(call)]
        assert [release.entity for release in released] == ["b", "a", "c"]
        one.deregister("b")
    assert one.counts["displaced"] == (0, 0, 0)
    one.close()


def test_what_redis_has_lost_is_not_remembered_for_longer_than_until_it_is_asked(
    shared_redis: EmbeddedRedis,
) -> None:
    one = gate(shared_redis, refresh=1e-6)
    one.register("meter")
    with Redis.from_url(shared_redis.url) as client:
        client.flushall()
    one.register("new")
    assert one.offer("meter", 1) == []
    assert one.pending == 1
    one.close()


def test_the_entities_of_the_format_before_are_taken_over_once(shared_redis: EmbeddedRedis) -> None:
    tag = "dispatcher:v2:{plant}:gate:"
    with Redis.from_url(shared_redis.url) as client:
        client.hset(f"{tag}entities", mapping={"house": "[null,null]", "meter": '["house",7]'})
        client.zadd(f"{tag}children", {"5:housemeter": 0})
        client.zadd(f"{tag}emitted", {"house": 4, "meter": 5})
        client.hset(f"{tag}totals", mapping={"sequence": 5, "number": 9, "telemetry": 2, "auto": 0})
        client.hset(f"{tag}registrations", "late", '000000000000001["top",null]')
        client.hset(f"{tag}since", "late", 1)
        one = gate(shared_redis)
        assert one.register("meter", parent="house", data=7) == []
        assert one.emissions_since(4) == [Emission(5, Registration("meter", "house", 7))]
        assert one.counts["dropped"] == (1, 0, 2)
        assert one.deregister("house") == ["house", "meter"]
        assert client.keys("dispatcher:v2:*") == []
    other = gate(shared_redis)
    assert other.counts["dropped"] == (0, 0, 0)
    assert other.register("house")
    one.close()
    other.close()
