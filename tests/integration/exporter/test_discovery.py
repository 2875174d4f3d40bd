"""The limits and topics that the exporter finds."""

from __future__ import annotations

from contextlib import ExitStack, closing

import pytest
from redis import Redis

from dispatcher._discovery import Discovery
from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.cluster import ClusterCollector
from dispatcher.timeline import Message, Timeline
from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.leases._scripts import keys_of, old_keys_of
from tests.integration.exporter.exporting import make, once, read, samples_of
from tests.servers.cluster import ClusterRedis


def test_everything_is_found_and_the_text_parses(shared_redis: EmbeddedRedis) -> None:
    names_ = ["orders", "or/d {é}:*", "of another prefix"]
    with ExitStack() as closing_:
        for number, name in enumerate(names_):
            prefix = "other" if number == 2 else "dispatcher"
            manager = RedisLeaseManager(shared_redis.url, name=name, prefix=prefix)
            make(closing_.enter_context(closing(manager)))
        timeline = closing_.enter_context(closing(Timeline(shared_redis.url, "mails", buckets=4)))
        timeline.producer("shop").create([Message(b"x"), Message(b"y", delay=900)])
        said = once("--redis", shared_redis.url)
        assert (said.returncode, said.stderr) == (0, "")
        found = samples_of(said.stdout)
        assert found["cluster_capacity", "orders", "shared"] == 1_000
        assert found["cluster_capacity", "or/d {é}:*", "shared"] == 1_000
        assert found["cluster_partitions", "free", "orders"] == 10
        assert found["timeline_messages", "mails", "waiting"] == 1
        assert found["timeline_messages", "mails", "new"] == 1
        assert found["timeline_created_total", "mails"] == 2
        assert found[("redis_up",)] == 1
        assert abs(found[("clock_drift_seconds",)]) < 60
        assert "of another prefix" not in said.stdout
        other = once("--redis", shared_redis.url, DISPATCHER_PREFIX="other")
        assert samples_of(other.stdout)["cluster_capacity", "max", "of another prefix"] == 1_000
        some = once(
            "--redis", shared_redis.url, "--limits", "orders, nobody", "--topics", "nothing"
        )
        assert samples_of(some.stdout).keys() >= {("cluster_demand", "orders")}
        assert "mails" not in some.stdout
        with Redis.from_url(shared_redis.url) as client:  # looking has made nothing
            assert not list(client.scan_iter("*nothing*")) + list(client.scan_iter("*nobody*"))


def test_one_that_cannot_be_read_does_not_hide_the_others(
    shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name="orders")) as manager:
        make(manager)
    collector = ClusterCollector(shared_redis.url)
    with Redis.from_url(shared_redis.url) as client:
        client.set(keys_of("dispatcher", "strange")[0], "not a limit")
        client.set("dispatcher:v1:{odd}:settings", "not a topic")
    for _ in range(3):
        assert read(collector, names.CLUSTER_CAPACITY)["orders", "shared"] == 1_000
    assert read(collector, names.REDIS_UP) == {(): True}
    ours = [it for it in caplog.records if it.name.startswith("dispatcher.metrics")]
    told = sorted(record.getMessage().partition(" cannot")[0] for record in ours)
    assert told == ["limit strange", "topic odd"]
    collector.close()


def test_t11_a_topic_that_was_created_again_with_other_buckets_is_read_as_it_is_now(
    shared_redis: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.timeline._server.topic.SEEN_FOR", 0.0)
    with (
        Redis.from_url(shared_redis.url) as client,
        closing(ClusterCollector(shared_redis.url, topics=["mails"])) as collector,
    ):
        for buckets in (4, 64):
            client.flushall()
            with closing(Timeline(shared_redis.url, "mails", buckets=buckets)) as timeline:
                timeline.producer("shop").create([Message(n, id=str(n)) for n in range(100)])
            read(collector, names.TOPIC_MESSAGES)
            assert read(collector, names.TOPIC_MESSAGES)["mails", "new"] == 100


def test_what_is_deleted_is_shown_no_more(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    with closing(RedisLeaseManager(shared_redis.url, name="orders")) as manager:
        make(manager)
        assert read(collector, names.CLUSTER_CAPACITY)
        manager.delete()
        assert not read(collector, names.CLUSTER_CAPACITY)


def test_nothing_is_kept_of_what_is_no_more(shared_redis: EmbeddedRedis) -> None:
    with (
        closing(RedisLeaseManager(shared_redis.url, name="orders")) as manager,
        closing(Timeline(shared_redis.url, "mails")) as timeline,
        closing(ClusterCollector(shared_redis.url)) as collector,
        Redis.from_url(shared_redis.url) as client,
    ):
        make(manager)
        assert timeline.buckets
        assert read(collector, names.CLUSTER_CAPACITY)
        assert read(collector, names.TOPIC_CONSUMERS)
        assert (len(collector._managers), len(collector._timelines)) == (1, 1)
        client.flushall()
        assert collector._discovery is not None
        collector._discovery._again = 0.0
        assert not read(collector, names.CLUSTER_CAPACITY)
        assert (len(collector._managers), len(collector._timelines)) == (0, 0)


def test_a_search_goes_on_where_it_stopped(shared_redis: EmbeddedRedis) -> None:
    with Redis.from_url(shared_redis.url) as client:
        client.mset({f"of another program:{number}": 1 for number in range(5_000)})
        client.hset(keys_of("dispatcher", "orders")[0], "x", 1)
        client.hset("dispatcher:v1:{mails}:settings", "x", 1)
        client.hset("dispatcher:v1:{mails/3}:meta", "x", 1)
        client.hset(old_keys_of("dispatcher", "of an older version")[0], "x", 1)
        time = [0.0]
        discovery = Discovery("dispatcher", lambda: time[0])
        steps = 0
        while discovery._search is not None or not steps:
            discovery.look(client, budget=0)
            steps += 1
        assert steps > 1
        assert (discovery.limits, discovery.topics) == (["orders"], ["mails"])
        client.hset(keys_of("dispatcher", "later")[0], "x", 1)
        client.delete(keys_of("dispatcher", "orders")[0])
        discovery.look(client, budget=60)
        assert discovery.limits == ["orders"]
        time[0] = 31
        discovery.look(client, budget=60)
        assert discovery.limits == ["later"]


def test_a_cluster_is_searched_on_all_its_nodes(cluster_redis: ClusterRedis) -> None:
    url = cluster_redis.url.replace("redis:", "redis+cluster:").removesuffix("/0")
    with ExitStack() as closing_:
        for number in range(9):
            manager = RedisLeaseManager(url, name=f"limit {number}")
            make(closing_.enter_context(closing(manager)))
        collector = closing_.enter_context(closing(ClusterCollector(url)))
        found = read(collector, names.CLUSTER_PERIOD)
        assert sorted(found) == [(f"limit {number}",) for number in range(9)]
        assert read(collector, names.REDIS_UP) == {(): True}
