"""A topic whatever its keys contain: each call and command heals, or says clearly what is wrong.
None keeps failing or hangs, no bucket stops, and a topic that is emptied is found empty."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis import Redis

from dispatcher.timeline import (
    Bury,
    Created,
    Delete,
    Ending,
    Invalid,
    Lease,
    Message,
    ReleaseLease,
    Status,
    Timeline,
    TimelineError,
    TimelineUnavailableError,
)
from dispatcher.timeline._encoding.ids import bucket_of
from dispatcher.timeline._encoding.layout import PARTS, Layout
from dispatcher.timeline._server.server import Server
from dispatcher.worker import Worker
from limiters.embedded import EmbeddedRedis
from tests.commands import Run
from tests.hostile import keys
from tests.samples import grid, sample
from tests.servers.cluster import ClusterRedis
from tests.waiting import until

BUCKETS = 2
LAYOUT = Layout("dispatcher", "jobs")
NAMES = (*PARTS, "settings", "consumers")
KINDS = keys.KINDS
MOST_SCRIPTS = 200
"""That one call may need."""

WORDS_OF_DEFECTS = re.compile(r"user_script|attempt to|nil|bad argument|cannot be used|Traceback")


def key_of(name: str, bucket: int = 0) -> str:
    if name in PARTS:
        return LAYOUT.keys(bucket)[PARTS.index(name)].decode()
    return (LAYOUT.settings if name == "settings" else LAYOUT.members).decode()


def names_in(bucket: int, start: str, number: int) -> list[str]:
    """So many ids that belong to a bucket."""
    every = (f"{start}{number}" for number in range(10_000))
    mine = (name for name in every if bucket_of(name, BUCKETS) == bucket)
    return [next(mine) for _ in range(number)]


class HangingError(BaseException):
    """A call goes on and on."""


class WatchedServer(Server):
    """Counts scripts, and has something happen before one of them."""

    count = 0
    most = MOST_SCRIPTS
    before: Callable[[int], object] = staticmethod(lambda count: None)

    def run_each(self, script: Any, calls: Any, **more: Any) -> Any:
        self.count += 1
        if self.count > self.most:
            raise HangingError
        self.before(self.count)
        return super().run_each(script, calls, **more)


def watched(client: Any, **options: Any) -> Timeline:
    timeline = Timeline(client, "jobs", **options)
    timeline._server.__class__ = WatchedServer
    return timeline


class Stage:
    """A topic in the middle of everything: each of its keys has something in it."""

    def __init__(self, server: EmbeddedRedis) -> None:
        self.url = server.url
        self.client: Any = Redis.from_url(server.url, socket_timeout=10)
        self.client.flushall()
        timeline = Timeline(
            self.client, "jobs", buckets=BUCKETS, remember_deleted=3_600, max_attempts=5
        )
        producer, consumer = timeline.producer("us"), timeline.consumer("one")
        self.leases: list[Lease] = []
        every = [names_in(bucket, "m", 12) for bucket in range(BUCKETS)]
        producer.create([Message({"name": it}, id=it) for its in every for it in its[:8]])
        taken = consumer.lease(100, 3_600)
        assert len(taken) == 8 * BUCKETS
        for bucket in range(BUCKETS):
            mine = [it for it in taken if bucket_of(it.id, BUCKETS) == bucket]
            consumer.bury(mine[:2], "no such user")
            consumer.delete(mine[2:3])
            consumer.release(mine[3:4], delay=3_600)
            self.leases += mine[4:]
            later = names_in(bucket, "later", 3)
            producer.create([Message("later", id=name, delay=3_600) for name in later])
        producer.create([Message("lost", id=it) for its in every for it in its[8:10]])
        consumer.lease(100, 0.1)
        until(lambda: timeline.stats().lost == 2 * BUCKETS, within=5)
        producer.create([Message("new", id=it) for its in every for it in its[10:]])
        self.kept = keys.Kept(self.client)
        assert {it.decode() for it in self.kept.keys} >= {key_of(name) for name in NAMES}

    def put_back(self) -> None:
        self.kept.put_back()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as made:
        yield made


@pytest.fixture(scope="module")
def stage(server: EmbeddedRedis) -> Iterator[Stage]:
    made = Stage(server)
    yield made
    made.client.close()


class Scene:
    """Everything that a call is made on."""

    def __init__(self, stage: Stage, **options: Any) -> None:
        self.stage = stage
        self.timeline = watched(stage.client, **options)
        self.server: Any = self.timeline._server
        self.producer = self.timeline.producer("us")
        self.consumer = self.timeline.consumer("one")
        self.operator = self.timeline.operator()

    def bucket(self, *starts: str) -> list[str]:
        """Ids of the bucket that is damaged."""
        return [name for start in starts for name in names_in(0, start, 12)]

    def leases(self) -> list[Lease]:
        return [it for it in self.stage.leases if bucket_of(it.id, BUCKETS) == 0]

    def subscribed(self) -> None:
        """For a moment, as a thread of a service."""
        failed: list[BaseException] = []
        seen = threading.Event()

        def run() -> None:
            try:
                self.consumer.subscribe(lambda leases: seen.set(), for_=30)
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        seen.wait(0.2)
        self.consumer.close()
        thread.join(10)
        assert not thread.is_alive()
        if failed:
            raise failed[0]


def moved(scene: Scene) -> object:
    return scene.operator.move(scene.operator.list(100)[0], delay=1)


def settled(scene: Scene) -> object:
    endings: list[Ending] = [
        Delete(),
        ReleaseLease(delay=1),
        Bury("no"),
        ReleaseLease(attempted=False),
    ]
    return scene.consumer.settle(list(zip(scene.leases(), endings, strict=False)))


NOW = 1_000_000_000_000

CALLS: dict[str, Callable[[Scene], object]] = {
    "create new": lambda it: it.producer.create([Message(1, id=n) for n in it.bucket("new")]),
    "create again": lambda it: it.producer.create([Message(1, id=n) for n in it.bucket("m")]),
    "producer.move": lambda it: it.producer.move(it.bucket("m", "later"), delay=1),
    "producer.delete": lambda it: it.producer.delete(it.bucket("m", "later")),
    "producer.get": lambda it: it.producer.get(it.bucket("m", "later")),
    "producer.list": lambda it: it.producer.list(100),
    "lease": lambda it: it.consumer.lease(100, 30),
    "lease one": lambda it: it.consumer.lease(1, 30),
    "extend": lambda it: it.consumer.extend(it.leases(), 3_600),
    "release": lambda it: it.consumer.release(it.leases(), delay=1),
    "bury": lambda it: it.consumer.bury(it.leases(), "no"),
    "consumer.delete": lambda it: it.consumer.delete(it.leases()),
    "settle": settled,
    "active": lambda it: it.consumer.active(),
    "buckets": lambda it: (it.consumer.buckets, it.consumer.due, it.timeline.buckets),
    "stats": lambda it: it.timeline.stats(),
    "count": lambda it: it.timeline.count(NOW, 9 * NOW),
    "histogram": lambda it: it.timeline.histogram(NOW, NOW + 10_000, 1),
    "late": lambda it: it.timeline.late([1, 60]),
    "is_spike": lambda it: (it.timeline.due_within(60), it.timeline.is_spike(10, 60)),
    "exists": lambda it: (it.timeline.exists(), it.timeline.max_attempts),
    "dead": lambda it: it.timeline.dead(100),
    "sweep": lambda it: it.timeline.sweep(),
    "peek": lambda it: it.operator.peek(100, states=[*Status][:5]),
    "operator.get": lambda it: it.operator.get(it.bucket("m", "later")),
    "operator.list": lambda it: it.operator.list(100),
    "operator.list some": lambda it: it.operator.list(100, states=["new", "lost"], group="us"),
    "operator.move": moved,
    "operator.delete": lambda it: it.operator.delete(it.operator.list(100)[0]),
}

COMMANDS: dict[str, list[str]] = {
    "stats": ["timeline", "stats", "jobs"],
    "stats --json": ["timeline", "stats", "jobs", "--json"],
    "peek": ["timeline", "peek", "jobs", "--limit", "100"],
    "peek --json": ["timeline", "peek", "jobs", "--limit", "100", "--json"],
    "dead": ["timeline", "dead", "jobs"],
    "histogram": ["timeline", "histogram", "jobs", "--from=-1h"],
    "create": ["timeline", "create", "jobs", "--group", "us", "hello"],
    "requeue": ["timeline", "requeue", "jobs", "--yes"],
    "move": ["timeline", "move", "jobs", "--all", "--yes", "--delay", "1m"],
    "delete": ["timeline", "delete", "jobs", "--all", "--yes"],
    "top": ["top", "--topic", "jobs", "--once"],
    "exporter": ["exporter", "--once", "--topics", "jobs"],
    "worker": ["worker", "json:dumps", "--topic", "jobs", "--check"],
}


def called(scene: Scene, call: Callable[[Scene], object]) -> str:
    """The error that a call raises, "" if it raises none."""
    scene.server.count = 0
    try:
        call(scene)
    except TimelineError as error:
        said = str(error)
        assert not WORDS_OF_DEFECTS.search(said), said
        return said
    return ""


def expect_what_is_said(said: str, name: str, kind: str, *, explicit: bool = False) -> None:
    if kind == "of another type":
        assert not said or f"something else under {key_of(name)}" in said, said
    elif name == "settings" and not explicit:
        assert not said or "buckets" in said, said
    else:
        assert not said, said


def places_of(client: Any, bucket: int) -> dict[str, set[bytes]]:
    found = {it: set(client.zrange(key_of(it, bucket), 0, -1)) for it in PARTS[:2]}
    found["dead"] = set(client.zrange(key_of("dead", bucket), 0, -1))
    return found


def works(stage: Stage) -> None:
    """All that a topic is for: whatever was, this must be right."""
    timeline = watched(stage.client, buckets=BUCKETS)
    producer, consumer = timeline.producer("us"), timeline.consumer("fresh")
    server: Any = timeline._server
    server.most = 1_000
    fresh = {name for bucket in range(BUCKETS) for name in names_in(bucket, "fresh", 3)}
    created = producer.create([Message(name, id=name) for name in fresh])
    assert {type(it) for it in created} == {Created}
    found: list[Lease] = []

    def all_came() -> bool:
        found.extend(consumer.lease(100, 600))
        return fresh <= {it.id for it in found}

    until(all_came, within=5)
    assert len({it._place for it in found}) == len(found), "two live leases on one message"
    assert all(it.ok for it in consumer.delete(found))
    timeline.sweep()
    stats = timeline.stats()
    assert stats.created == stats.deleted + stats.dead + stats.remaining
    for bucket in range(BUCKETS):
        places = places_of(stage.client, bucket)
        every = [it for ids in places.values() for it in ids]
        assert sorted(every) == sorted(stage.client.hkeys(key_of("messages", bucket)))
        assert stage.client.zcard(key_of("held", bucket)) <= len(places["leased"])
        assert stage.client.hlen(key_of("states", bucket)) <= len(every)
    empty(stage, timeline)


def empty(stage: Stage, timeline: Timeline) -> None:
    """An operator can delete all messages without a lease, and then all."""
    operator = timeline.operator()
    seen, cursor = operator.list(1_000)
    assert cursor == ""
    free = [it for it in seen if it.status is not Status.PROCESSING]
    outcomes = operator.delete(free)
    assert all(it.ok for it in outcomes), outcomes
    timeline.sweep()
    left = timeline.stats()
    assert left.remaining == left.processing
    assert left.dead == 0
    for bucket in range(BUCKETS):
        number = stage.client.hlen(key_of("messages", bucket))
        assert number == stage.client.zcard(key_of("leased", bucket))
        assert stage.client.hlen(key_of("states", bucket)) <= number


@pytest.mark.parametrize(("name", "kind"), grid(NAMES, KINDS, every=5))
def test_each_call_heals_or_says_what_is_wrong(stage: Stage, name: str, kind: str) -> None:
    chance = random.Random(f"{name} {kind}")
    for what, call in CALLS.items():
        stage.put_back()
        if not keys.damage(stage.client, key_of(name), kind, chance):
            return
        scene = Scene(stage, **known(name, kind))
        expect_what_is_said(called(scene, call), name, kind)
        if what in WRITING:
            judged(stage, name, kind)


def known(name: str, kind: str) -> dict[str, Any]:
    """Once all settings of a topic are gone, its existence cannot be seen: its next user has to set
    the number of buckets."""
    return {"buckets": BUCKETS} if name == "settings" and kind in ("missing", "expired") else {}


WRITING = ("create again", "lease one", "settle", "producer.move", "stats")
"""After which everything is looked at."""


def judged(stage: Stage, name: str, kind: str) -> None:
    if kind == "of another type":
        other_bucket_goes_on(stage, name)
        stage.client.delete(key_of(name))
    if name == "settings" and kind == "a bit flipped":  # another number, that might have been meant
        stage.client.hset(key_of(name), "buckets", BUCKETS)
    works(stage)


def other_bucket_goes_on(stage: Stage, name: str) -> None:
    if name not in PARTS:
        return
    [fresh] = names_in(1, "other", 1)
    scene = Scene(stage)
    assert called(scene, lambda it: it.producer.create([Message(1, id=fresh)])) == ""
    found: list[Lease] = []

    def came() -> bool:
        found.extend(scene.consumer.lease(100, 30))
        return fresh in {it.id for it in found}

    until(came, within=5)
    assert scene.consumer.delete([it for it in found if it.id == fresh])[0].ok


@pytest.mark.parametrize("name", NAMES)
def test_a_key_that_is_evicted_in_the_middle_of_a_call(stage: Stage, name: str) -> None:
    for place in (2, 3):
        for call in CALLS.values():
            stage.put_back()
            scene = Scene(stage, buckets=BUCKETS)
            scene.server.before = lambda count, place=place: (
                count == place and stage.client.delete(key_of(name))
            )
            assert called(scene, call) == ""
        works(stage)


@pytest.mark.parametrize("seed", sample(range(20), every=5))
def test_several_keys_together(stage: Stage, seed: int) -> None:
    chance = random.Random(seed)
    kinds = [one for one in KINDS if one != "of another type"]
    for call in CALLS.values():
        stage.put_back()
        for name in chance.sample(PARTS, 3):
            keys.damage(stage.client, key_of(name), chance.choice(kinds), chance)
        assert called(Scene(stage), call) == ""
    works(stage)


@pytest.mark.parametrize(("name", "kind"), grid(NAMES, KINDS, every=5))
def test_each_command_heals_or_says_what_is_wrong(
    stage: Stage, run: Run, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.setenv("DISPATCHER_REDIS", stage.url)
    chance = random.Random(f"{name} {kind}")
    for words in COMMANDS.values():
        stage.put_back()
        if not keys.damage(stage.client, key_of(name), kind, chance):
            return
        said = run(*words)
        assert not WORDS_OF_DEFECTS.search(said.err), said.err
        if said.code:
            told = said.out + said.err
            incomplete = ("not all could be", "nothing was", "there is no topic")
            if not any(words in told for words in incomplete):
                expect_what_is_said(told, name, kind)
        for text in (said.out, said.err):
            assert all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.parametrize(("name", "kind"), grid(PARTS, KINDS, every=5))
def test_no_subscriber_stops(stage: Stage, name: str, kind: str) -> None:
    stage.put_back()
    if not keys.damage(stage.client, key_of(name), kind, random.Random(f"{name} {kind}")):
        return
    scene = Scene(stage)
    scene.server.most = 1_000
    assert called(scene, lambda it: it.subscribed()) == ""
    judged(stage, name, kind)


def stored(bucket: int, part: str) -> bytes:
    return LAYOUT.keys(bucket)[PARTS.index(part)]


@pytest.fixture
def topic(shared_redis: EmbeddedRedis) -> Iterator[Timeline]:
    with Redis.from_url(shared_redis.url) as client:
        yield Timeline(client, "jobs", buckets=1)


def test_t7_what_lost_its_body_is_dead_with_a_reason_and_its_bucket_goes_on(
    topic: Timeline,
) -> None:
    client = topic._server.connection.client()
    topic.producer("us").create([Message(n, id=f"m{n}") for n in range(5)])
    client.hdel(stored(0, "messages"), "m2")
    client.zadd(stored(0, "waiting"), {b"\xff stray": 5})
    consumer = topic.consumer("one")
    found = consumer.lease(100, 30)
    assert [it.id for it in found] == ["m0", "m1", "m3", "m4"]
    assert {(it.id, it.reason) for it in topic.dead()[0]} == {
        ("m2", "its body was lost"),
        ("\\xff stray", "its body was lost"),
    }
    stats = topic.stats()
    assert stats.created == stats.deleted + stats.dead + stats.remaining == 6
    operator = topic.operator()
    dead = operator.peek(10, states=["dead"])
    assert {it.id for it in dead} == {"m2", "\\xff stray"}
    refused = operator.move(dead, delay=0)
    assert [type(it) for it in refused] == [Invalid, Invalid], "it would only die again"
    assert topic.stats().dead == 2
    assert all(it.ok for it in operator.delete(operator.peek(10, states=["dead"])))
    assert topic.stats().dead == 0
    assert all(it.ok for it in topic.producer("us").create([Message(2, id="m2")]))
    assert [it.body for it in consumer.lease(100, 30)] == [2]


@pytest.mark.parametrize("text", [" 3", "3 ", "0x3", "3e0", "+3", "3.0"])
def test_a_counter_that_redis_could_not_count_on_is_repaired(topic: Timeline, text: str) -> None:
    client = topic._server.connection.client()
    producer = topic.producer("us")
    producer.create([Message(n, id=f"m{n}") for n in range(3)])
    client.hset(stored(0, "meta"), "created", text)
    assert topic.sweep() is not None  # examines the bucket, and repairs it
    consumer = topic.consumer("one")
    assert all(it.ok for it in consumer.delete(consumer.lease(1, 600)))
    producer.create([Message(n, id=f"n{n}") for n in range(2)])
    stats = topic.stats()
    assert (stats.created, stats.deleted, stats.remaining) == (5, 1, 4)


def test_a_worker_goes_on_where_all_bodies_were_evicted(topic: Timeline) -> None:
    client = topic._server.connection.client()
    topic.producer("us").create([Message(n, id=f"m{n}", delay=0.05) for n in range(300)])
    client.delete(stored(0, "messages"))
    handled: list[str] = []
    with Worker(topic, lambda its: handled.extend(it.id for it in its), rate_limiter=None):
        until(lambda: topic.stats().dead == 300)
        topic.producer("us").create([Message("more", id="more")])
        until(lambda: topic.stats().deleted == 1)
    assert handled == ["more"]


@pytest.mark.parametrize("lost", ["waiting", "leased", "dead"])
def test_t2_what_has_lost_its_place_is_never_early_and_never_lost(
    topic: Timeline, lost: str
) -> None:
    client = topic._server.connection.client()
    producer, consumer = topic.producer("us"), topic.consumer("one")
    producer.create([Message(it, id=it) for it in ("held", "late", "buried")])
    leases = {it.id: it for it in consumer.lease(10, 600)}
    consumer.release(leases["late"], delay=600)
    consumer.bury(leases["buried"], "no such user")
    producer.create([Message("never moved", id="never moved", delay=600)])
    client.delete(stored(0, lost))
    topic.sweep()
    stats = topic.stats()
    assert stats.created == stats.deleted + stats.dead + stats.remaining == 4
    seen = {it.id: it for it in topic.operator().list(10)[0]}
    reasons = {it.id: it.reason for it in seen.values() if it.status is Status.DEAD}
    assert reasons.pop("buried") == "no such user"
    assert reasons == ({"never moved": "when it is due was lost"} if lost == "waiting" else {})
    found = [it.id for it in topic.consumer("two").lease(10, 30)]
    assert found in ([], ["held"])
    until(lambda: lost != "leased" or found or topic.consumer("two").lease(10, 30))
    [outcome] = consumer.delete(leases["held"])
    assert outcome.ok == (lost != "leased")


def test_t3_what_is_in_two_sets_has_one_lease(topic: Timeline) -> None:
    client = topic._server.connection.client()
    topic.producer("us").create([Message(n, id=f"m{n}") for n in range(3)])
    [lease, *_] = topic.consumer("one").lease(1, 600)
    client.zadd(stored(0, "waiting"), {lease.id: 1, "m2": 1})
    client.zadd(stored(0, "leased"), {"m2": 1})
    found = topic.consumer("one").lease(10, 600)
    assert sorted([lease.id, *(it.id for it in found)]) == ["m0", "m1", "m2"]
    assert [it.ok for it in topic.consumer("one").delete([lease, *found])] == [True] * 3
    topic.sweep()
    assert topic.stats().remaining == 0


def test_t3_a_stray_hold_gives_no_consumer_what_another_has(topic: Timeline) -> None:
    client = topic._server.connection.client()
    topic.producer("us").create([Message("x", id="m")])
    consumer = topic.consumer("one")
    leases = consumer.lease(1, 600)
    client.zadd(stored(0, "held"), {b"two\0m": 0})
    assert topic.consumer("two").active() == []
    assert consumer.delete(leases)[0].ok


def test_a_consumer_repairs_what_no_other_would_notice(topic: Timeline) -> None:
    client = topic._server.connection.client()
    topic.producer("us").create([Message("x", id="m", delay=600)])
    client.delete(stored(0, "waiting"))
    consumer = topic.consumer("one")
    assert consumer.buckets == [0]
    until(lambda: consumer.lease(1, 30) == [] and topic.stats().dead == 1)
    assert topic.dead()[0][0].reason == "when it is due was lost"


def test_what_is_published_stops_no_consumer(topic: Timeline) -> None:
    client, seen = topic._server.connection.client(), threading.Event()
    consumer = topic.consumer("one")
    thread = threading.Thread(target=consumer.subscribe, args=(lambda leases: seen.set(),))
    thread.start()
    until(lambda: client.publish(LAYOUT.channel, b"0 nan"))
    for said in (b"0 inf", b"0 -inf", b"-1 5", b"999999 5", b"9" * 5000 + b" 5", b"", b"\xff"):
        client.publish(LAYOUT.channel, said)
    topic.producer("us").create([Message("x")])
    assert seen.wait(10)
    consumer.close()
    thread.join(10)


def test_on_a_cluster_damage_stays_in_its_bucket(cluster_redis: ClusterRedis) -> None:
    place = f"127.0.0.1:{cluster_redis.nodes[0].port}"
    timeline = Timeline(f"redis+cluster://{place}", "jobs", buckets=8)
    client = timeline._server.connection.client()
    producer, consumer = timeline.producer("us"), timeline.consumer("one")
    producer.create([Message(n, id=f"m{n}") for n in range(80)])
    client.delete(stored(0, "messages"))
    client.delete(stored(1, "waiting"))
    client.delete(stored(2, "waiting"))
    client.set(stored(2, "waiting"), "x")
    found: list[Lease] = []
    whole = {f"m{n}" for n in range(80) if bucket_of(f"m{n}", 8) > 2}

    def all_came() -> bool:
        found.extend(consumer.lease(100, 30))
        return whole == {it.id for it in found}

    until(all_came)
    consumer.delete(found)
    with pytest.raises(TimelineUnavailableError, match=r"something else under .*jobs/2}:waiting;"):
        timeline.sweep()
    client.delete(stored(2, "waiting"))
    timeline.sweep()
    stats = timeline.stats()
    assert (stats.deleted, stats.dead) == (len(whole), 80 - len(whole))
    timeline.close()
