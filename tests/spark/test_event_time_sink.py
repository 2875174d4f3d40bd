"""EventTimeSink sends the batches that event_time_batches has closed, each as it was built."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dispatcher.spark import EventTimeSink, LimiterConfig, event_time_batches
from limiters.embedded import EmbeddedRedis
from limiters.limits import InFlight, Limits, Rate
from tests.samples import tuples
from tests.spark.handlers import notes, noting, take
from tests.spark.streams import LONG

SCHEMA = "subject string, start long, end long, messages array<struct<kind: string, n: long>>"
BATCHES = [
    ("a", 150, 200, [("x", 3)]),
    ("a", 100, 150, [("x", 1), ("y", 2)]),
    ("b", 100, 150, [("x", 9)]),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.mark.parametrize(
    ("form", "type_"),
    tuples(
        [("row", "Row"), ("dict", "dict"), ("arrow", "RecordBatch"), ("tuple", "tuple")], every=2
    ),
)
def test_k5_each_batch_is_sent_as_it_was_built_in_order_of_start(
    spark: SparkSession, shared_redis: EmbeddedRedis, log: Path, form: str, type_: str
) -> None:
    sink = EventTimeSink(
        noting(take, log), redis=shared_redis.url, query="q", rows=form, cost=2, partitions=2
    )

    sink(spark.createDataFrame(BATCHES, SCHEMA), 0)
    sink(spark.createDataFrame(BATCHES, SCHEMA), 0)

    noted = [(one["numbers"], one["first"], one["last"]) for one in notes(log)]
    assert [one for one in noted if one[0] != [9]] == [([1, 2], 100, 150), ([3], 150, 200)]
    assert len(noted) == 3
    assert {one["type"] for one in notes(log)} == {type_}
    assert sink.last is not None
    assert (sink.last.rows, sink.last.replayed_rows) == (3, 3)


@pytest.mark.parametrize(("cost", "sum_"), [(2, 8.0), ("size(messages) * 3", 12.0)])
def test_a_message_costs_the_given_cost(
    spark: SparkSession, shared_redis: EmbeddedRedis, cost: object, sum_: float
) -> None:
    handler = "tests.spark.handlers:only_rows"
    sink = EventTimeSink(handler, redis=shared_redis.url, query="q", cost=cost)

    sink(spark.createDataFrame(BATCHES, SCHEMA), 0)

    assert sink.last is not None
    assert sink.last.cost == sum_


def test_v3_v7_batches_cost_several_dimensions_and_a_refusal_names_one(
    spark: SparkSession, shared_redis: EmbeddedRedis, log: Path, tmp_path: Path
) -> None:
    limits = Limits(requests=Rate(100), tokens=Rate(11), calls=InFlight(2))
    sink = EventTimeSink(
        noting(take, log),
        query="q",
        rows="dict",
        cost={"requests": 1, "tokens": "size(messages) * 3 + if(subject = 'b', 9, 0)"},
        batch_cost={"calls": 1, "requests": 2},
        limiter=LimiterConfig(url=shared_redis.url, name="events", shared_capacity=limits),
        dead_letters=noting(take, tmp_path / "dead"),
    )
    sink(spark.createDataFrame(BATCHES, SCHEMA), 0)

    assert [one["numbers"] for one in notes(log)] == [[1, 2], [3]]
    assert sink.last is not None
    assert sink.last.cost == {"requests": 3 + 2 * 2, "tokens": 9, "calls": 2}
    (dead,) = notes(tmp_path / "dead")
    assert dead["numbers"] == [9]
    assert "costs 12 of tokens, more than" in dead["reason"]


def test_rows_that_are_not_of_event_time_batches_are_refused(
    spark: SparkSession, shared_redis: EmbeddedRedis
) -> None:
    sink = EventTimeSink("tests.spark.handlers:only_rows", redis=shared_redis.url, query="q")

    with pytest.raises(ValueError, match="df must have a column 'end'"):
        sink(spark.range(3).selectExpr("id as subject", "id as start"), 0)


def test_a_stream_is_batched_by_event_time_and_sent(
    spark: SparkSession, shared_redis: EmbeddedRedis, log: Path, tmp_path: Path
) -> None:
    rows = [
        {"device": "d", "kind": kind, "at": at, "arrival": arrival, "n": at}
        for kind, at, arrival in [
            ("a", 100, 110), ("b", 115, 120), ("c", 145, 150),
            ("d", 155, 210), ("e", 165, 225), ("f", 500, 900),
        ]
    ]  # fmt: skip
    spark.createDataFrame(rows).coalesce(1).write.json(str(tmp_path / "rows"))
    stream = spark.readStream.schema(
        "device string, kind string, at long, arrival long, n long"
    ).json(str(tmp_path / "rows"))
    batches = event_time_batches(
        stream, subject="device", key="kind", time="at", arrival="arrival", window=50, timeout=100
    )

    query = (
        batches.writeStream.foreachBatch(
            EventTimeSink(noting(take, log), redis=shared_redis.url, rows="dict")
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(LONG)

    assert [one["numbers"] for one in notes(log)] == [[100, 115, 145], [155, 165]]
