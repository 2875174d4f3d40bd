"""The capacity that a SubjectSink spends, and holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions
from redis import Redis

from dispatcher.registration import RedisEntityStore, RegistrationGate
from dispatcher.spark import LimiterConfig
from limiters import ArgumentError
from limiters.embedded import EmbeddedRedis
from limiters.limits import InFlight, Limits, Rate
from tests.samples import sample, tuples
from tests.spark.handlers import notes, noting, take
from tests.spark.subject_sink.orders import LATER, ROWS, Made, at, frame, taken


@pytest.mark.parametrize(
    ("cost", "sum_"),
    tuples(
        [
            (2, 18.0),
            ("n", 189.0),
            ("n * 2 + 1", 387.0),
            (0, 0.0),
            (lambda row: row["n"] / 2, 94.5),
            ("column", 189.0),
        ],
        every=2,
    ),
)
def test_a_row_costs_the_given_cost(
    spark: SparkSession, sink: Made, cost: Any, sum_: float
) -> None:
    made = sink(cost=functions.col("n") if cost == "column" else cost)

    made(frame(spark, ROWS), 0)

    assert made.last is not None
    assert made.last.cost == sum_


def test_no_batch_costs_more_than_max_batch_cost(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink(cost="n", max_batch_cost=50)(frame(spark, ROWS), 0)

    assert taken(log, "a") == [[10, 20], [30]]
    assert taken(log, "c") == [[12, 22], [32]]


def test_k2_a_row_whose_cost_is_null_is_a_dead_letter_or_an_error(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    made = sink(cost="if(n = 10, null, n)", dead_letters=noting(take, tmp_path / "dead"))
    made(frame(spark, ROWS), 0)

    (dead,) = notes(tmp_path / "dead")
    assert dead["numbers"] == [10]
    assert dead["reason"].startswith("its cost is null or NaN, and a cost is a number of zero")
    sent = sorted(number for one in notes(log) for number in one["numbers"])
    assert sent == [11, 12, 20, 21, 22, 30, 31, 32]
    with pytest.raises(PySparkException, match=r"of subject 'a' in .*: its cost is null or NaN"):
        sink(cost="if(n = 10, null, n)")(frame(spark, ROWS), 1)


def test_a_batch_that_costs_more_than_the_limit_fails_with_advice(
    spark: SparkSession, sink: Made, shared_redis: EmbeddedRedis, tmp_path: Path
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="small", shared_capacity=2, factor=1)

    options: dict[str, Any] = {"limiter": limiter, "order": "global", "max_batch_size": 3}
    with pytest.raises(PySparkException, match="max_batch_cost"):
        sink(**options)(frame(spark, ROWS), 0)

    dead = noting(take, tmp_path / "dead")
    sink(**options, dead_letters=dead, query="others")(frame(spark, ROWS), 0)
    assert len(notes(tmp_path / "dead")) == 3


@pytest.mark.parametrize(("pack", "batches"), [(True, 3), (False, 3)])
def test_k8_no_pack_costs_more_than_the_limit_can_grant(
    spark: SparkSession,
    sink: Made,
    log: Path,
    shared_redis: EmbeddedRedis,
    pack: bool,
    batches: int,
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="small", shared_capacity=4, factor=1)

    made = sink(limiter=limiter, partitions=1, pack=pack)
    made(frame(spark, ROWS), 0)

    assert made.last is not None
    assert (made.last.sent_rows, made.last.batches) == (9, batches)


def test_a_batch_of_one_subject_costs_no_more_than_the_limit_can_grant(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="small", shared_capacity=2, factor=1)

    sink(limiter=limiter, pack=False)(frame(spark, ROWS), 0)

    assert taken(log, "a") == [[10, 20], [30]]


API = Limits(requests=Rate(5_000), tokens=Rate(5_000), calls=InFlight(2))


def test_v3_rows_and_batches_cost_the_given_amount_of_each_dimension(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="api", shared_capacity=API)
    cost = {
        "requests": 2,
        "tokens": functions.col("n") * 2,
    }
    made = sink(limiter=limiter, cost=cost, batch_cost={"requests": 1, "calls": 1})
    made(frame(spark, ROWS), 0)

    assert made.last is not None
    calls = made.last.calls
    assert made.last.cost == {"requests": 18 + calls, "tokens": 2 * 189, "calls": calls}
    assert made.last.used is not None
    assert made.last.used > 0
    assert sorted(n for one in notes(log) for n in one["numbers"]) == sorted(n for *_, n in ROWS)


@pytest.mark.parametrize("tokens", sample([lambda row: row["n"], "n"], every=2))
def test_v7_packs_are_bounded_in_each_dimension(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis, tokens: Any
) -> None:
    small = Limits(requests=Rate(100), tokens=Rate(130))
    limiter = LimiterConfig(url=shared_redis.url, name="small", shared_capacity=small)
    cost = {"requests": 1, "tokens": tokens}
    made = sink(limiter=limiter, cost=cost, batch_cost={"tokens": 4}, partitions=1)
    made(frame(spark, ROWS), 0)

    packs: dict[str, int] = {}
    for one in notes(log):
        packs[one["pack"]] = packs.get(one["pack"], 0) + sum(one["numbers"])
    # a, b and c cost 60, 63 and 66 in all.
    assert sorted(packs.values()) == [66, 123]


def test_a_text_is_refused_as_a_cost(spark: SparkSession, sink: Made) -> None:
    advice = r"must be a number; subject is a string. Cast it: 'cast\(subject as double\)'"
    with pytest.raises(ArgumentError, match=rf"cost {advice}"):
        sink(cost="subject")(frame(spark, ROWS), 0)
    with pytest.raises(ArgumentError, match=rf"cost\['tokens'\] {advice}"):
        sink(cost={"tokens": functions.col("subject")})(frame(spark, ROWS), 0)


def test_k4_an_empty_micro_batch_asks_for_no_capacity(
    spark: SparkSession, sink: Made, shared_redis: EmbeddedRedis, connect: Callable[[str], Redis]
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="idle", shared_capacity=100, factor=10)
    made = sink(limiter=limiter)

    made(frame(spark, []), 0)

    assert made.last is not None
    assert (made.last.rows, made.last.batches) == (0, 0)
    assert not [key for key in connect(shared_redis.url).keys() if b"idle" in key]  # noqa: SIM118


def test_no_capacity_is_held_between_micro_batches(
    spark: SparkSession, sink: Made, shared_redis: EmbeddedRedis
) -> None:
    limiter = LimiterConfig(url=shared_redis.url, name="orders", shared_capacity=1000, factor=10)

    sink(limiter=limiter)(frame(spark, ROWS), 0)

    from limiters import RedisLeaseManager

    manager = RedisLeaseManager(shared_redis.url, name="orders")
    view = manager.look()
    manager.close()
    assert view is not None
    assert view.free == 1.0


def test_rows_of_unregistered_subjects_wait_for_their_registration(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis
) -> None:
    store = RedisEntityStore(shared_redis.url, name="devices")
    with RegistrationGate(RedisEntityStore(shared_redis.url, name="devices")) as gate:
        gate.register("a")
        made = sink(gate=store, max_batch_size=2, rows="tuple")
        made(frame(spark, ROWS), 0)
        made(frame(spark, ROWS), 0)  # rows that are held are not held twice

        assert {one["subject"] for one in notes(log)} == {"a"}
        assert made.last is not None
        assert (made.last.replayed_rows, made.last.held_rows) == (9, 0)
        (release,) = gate.register("b")
        assert [message["n"] for message in release.messages] == [11, 21, 31]

        made(frame(spark, [*LATER, ("b", at(5), 50)]), 1)
        assert taken(log, "b") == [[50]]
        assert made.last.held_rows == 1  # that of d


def test_rows_that_are_held_cost_nothing(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis
) -> None:
    made = sink(gate=RedisEntityStore(shared_redis.url, name="devices"), cost="n")

    made(frame(spark, ROWS), 0)

    assert made.last is not None
    assert (made.last.cost, made.last.held_rows, made.last.sent_rows) == (0, 9, 0)
