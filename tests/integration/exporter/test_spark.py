"""The work of Spark's sinks, read without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from redis import Redis

from dispatcher.metrics import _names as names
from dispatcher.metrics._cluster.cluster import ClusterCollector
from dispatcher.metrics._exposition import text_of
from dispatcher.spark._ledger import claims
from dispatcher.spark._task.sums import Sums, stored, together
from limiters.embedded import EmbeddedRedis
from tests.spark_totals import MICRO_BATCH, finish, introduce, spend


@pytest.fixture
def client(shared_redis: EmbeddedRedis) -> Iterator[Redis]:
    with Redis.from_url(shared_redis.url) as made:
        yield made


@pytest.fixture
def collector(shared_redis: EmbeddedRedis) -> Iterator[ClusterCollector]:
    with closing(ClusterCollector(shared_redis.url)) as made:
        yield made


def read(collector: ClusterCollector, metric: names.Metric) -> dict[tuple[str, ...], Any]:
    return {it.labels: it.value for it in collector.read() if it.metric == metric}


def test_what_a_query_has_done_is_shown_by_its_name(
    client: Redis, collector: ClusterCollector
) -> None:
    introduce(client, "orders {eu}")
    for _ in range(2):
        finish(client, "orders%20%7Beu%7D")
    assert read(collector, names.SPARK_ROWS) == {
        ("orders {eu}", "sent"): 1_800,
        ("orders {eu}", "replayed"): 120,
        ("orders {eu}", "rejected"): 80,
        ("orders {eu}", "held"): 6,
        ("orders {eu}", "late"): 14,
    }
    for metric, value in (
        (names.SPARK_INPUT, 2_000),
        (names.SPARK_BATCHES, 20),
        (names.SPARK_CALLS, 24),
        (names.SPARK_HANDLING, 3),
        (names.SPARK_COST, 2_400),
        (names.SPARK_WAITED, 5),
        (names.SPARK_RETRIES, 4),
        (names.SPARK_THROTTLED, 2),
    ):
        assert read(collector, metric) == {("orders {eu}",): value}, metric.name
    shown = text_of(collector.read())
    assert 'dispatcher_spark_micro_batch_seconds_count{query="orders {eu}"} 2.0' in shown
    assert 'dispatcher_spark_micro_batch_seconds_sum{query="orders {eu}"} 9.0' in shown


def test_the_cost_in_several_dimensions_is_shown_by_their_names(
    client: Redis, collector: ClusterCollector
) -> None:
    introduce(client, "api")
    spend(client, "api", tokens=5_000, requests=7)

    assert read(collector, names.SPARK_COST) == {("api", "tokens"): 5_000, ("api", "requests"): 7}
    shown = text_of(collector.read())
    assert re.search(r"dispatcher_spark_cost_total{[^}]*dimension=.tokens.[^}]*} 5000", shown)


def test_a_query_that_has_done_nothing_yet_is_at_zero_so_that_its_first_rows_count(
    client: Redis, collector: ClusterCollector
) -> None:
    introduce(client, "new")
    assert read(collector, names.SPARK_ROWS)[("new", "rejected")] == 0
    assert read(collector, names.SPARK_BATCHES) == {("new",): 0}


def test_without_spark_nothing_of_it_is_shown(collector: ClusterCollector) -> None:
    assert not read(collector, names.SPARK_BATCHES)


def test_who_names_limits_sees_those_only(client: Redis, shared_redis: EmbeddedRedis) -> None:
    introduce(client, "orders")
    with closing(ClusterCollector(shared_redis.url, limits=["some"])) as some:
        assert not read(some, names.SPARK_BATCHES)
        assert some.up


def test_a_key_of_another_type_hides_nothing_else(
    client: Redis, collector: ClusterCollector
) -> None:
    introduce(client, "broken")
    introduce(client, "whole")
    client.set("dispatcher:spark:v1:{broken}:totals", "?")
    finish(client, "whole")
    assert read(collector, names.SPARK_BATCHES) == {("whole",): 10}
    assert collector.up


def test_an_exporter_that_may_not_look_for_queries_shows_everything_else(
    client: Redis, shared_redis: EmbeddedRedis, caplog: pytest.LogCaptureFixture
) -> None:
    introduce(client, "orders")
    client.acl_setuser(
        "narrow",
        enabled=True,
        passwords=["+pw"],
        keys=["*"],
        categories=["+@all"],
        commands=["-zrange"],
    )
    try:
        url = shared_redis.url.replace("redis://", "redis://narrow:pw@")
        with closing(ClusterCollector(url)) as narrow:
            for _ in range(2):
                assert not read(narrow, names.SPARK_BATCHES)
                assert narrow.up
        assert caplog.text.count("Spark cannot be read") == 1
    finally:
        client.acl_deluser("narrow")


def test_it_is_what_the_sinks_write_down(
    shared_redis: EmbeddedRedis, collector: ClusterCollector
) -> None:
    place = claims.Place(shared_redis.url, "dispatcher", "orders {eu}", "a checkpoint")
    ledger = claims.Redis(place, patience=10)
    with closing(ledger):
        ledger.introduce(place)
        assert read(collector, names.SPARK_BATCHES) == {("orders {eu}",): 0}
        claim = claims.QueryRun().claim(
            ledger, place, 0, signature="s", time_kind="number", lease=1, remember=60
        )
        told = together(
            [Sums().numbers, {"rows": 7, "sent_rows": 6, "rejected_rows": 1, "batches": 2}]
        )
        claims.finish(ledger, claim, {**stored(told), "micro_batches": 1, "seconds": 0.5})
    assert read(collector, names.SPARK_BATCHES) == {("orders {eu}",): 2}
    assert read(collector, names.SPARK_ROWS)[("orders {eu}", "rejected")] == 1
    assert {*stored(told), "micro_batches", "seconds"} == set(MICRO_BATCH)
