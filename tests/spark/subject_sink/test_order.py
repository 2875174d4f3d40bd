"""The order in which a SubjectSink sends, and the arguments of its handler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from redis import Redis

from limiters.embedded import EmbeddedRedis
from tests.samples import sample, tuples
from tests.spark.handlers import note, notes, noting, take, take_async
from tests.spark.subject_sink.orders import LATER, ROWS, Made, Row, at, frame, taken


def test_k1_each_subject_is_sent_in_order_of_time_in_batches_of_its_own(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    made = sink(max_batch_size=2)

    made(frame(spark, ROWS), 0)

    assert {subject: taken(log, subject) for subject in "abc"} == {
        "a": [[10, 20], [30]],
        "b": [[11, 21], [31]],
        "c": [[12, 22], [32]],
    }
    assert made.last is not None
    assert (made.last.rows, made.last.batches, made.last.sent_rows) == (9, 6, 9)
    assert made.last.cost == 9


@pytest.mark.parametrize(
    ("form", "type_"),
    tuples(
        [("row", "Row"), ("dict", "dict"), ("arrow", "RecordBatch"), ("tuple", "tuple")], every=2
    ),
)
def test_rows_have_the_requested_form(
    spark: SparkSession, sink: Made, log: Path, form: str, type_: str
) -> None:
    sink(rows=form)(frame(spark, ROWS), 0)

    assert {one["type"] for one in notes(log)} == {type_}
    assert sorted(n for one in notes(log) for n in one["numbers"]) == sorted(r[2] for r in ROWS)


def test_a_handler_may_be_a_coroutine_or_take_no_context(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink(noting(take_async, log))(frame(spark, ROWS), 0)
    named = sink("tests.spark.handlers:only_rows", query="others")
    named(frame(spark, ROWS), 0)

    assert taken(log, "b") == [[11, 21, 31]]
    assert named.last is not None
    assert named.last.sent_rows == 9


def test_the_context_has_the_subject_and_the_times_of_the_rows(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink()(frame(spark, ROWS), 7)

    (noted,) = [one for one in notes(log) if one["subject"] == "b"]
    assert noted["first"] == "2026-01-01 00:00:01+00:00"
    assert noted["last"] == "2026-01-01 00:00:03+00:00"
    assert (noted["batch"], noted["query"], noted["attempt"], noted["late"]) == (
        7,
        "orders",
        1,
        False,
    )


def test_k3_rows_that_differ_only_in_maps_have_one_order(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    numbers = [(n, {"n": n % 7, "m": n}) for n in range(40)]
    rows = spark.createDataFrame(numbers, "id long, m map<string, long>").selectExpr(
        "'a' as subject", "timestamp_seconds(1) as at", "m", "named_struct('m', m) as n"
    )
    for parts in (1, 3):
        sink("tests.spark.subject_sink.test_order:note_maps", query=f"{log}", ledger=False)(
            rows.repartition(parts).orderBy(functions.rand(parts)), 0
        )

    first, second = [one["maps"] for one in notes(log)]
    assert sorted(first) == sorted(one[1]["m"] for one in numbers)
    assert first == second


def note_maps(rows: list[Any], context: Any) -> None:
    """Note the maps of the rows in the file that is the name of the query."""
    note(context.query, {"maps": [row["m"]["m"] for row in rows]})


def test_k1_late_rows_are_sent_first_and_flagged(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    made = sink()
    made(frame(spark, ROWS), 0)
    made(frame(spark, LATER), 1)
    # A replay finds the same rows late, although the later ones have been sent since.
    made(frame(spark, LATER), 1)

    noted = [(one["numbers"], one["late"]) for one in notes(log) if one["batch"] == 1]
    assert sorted(noted) == [([1], True), ([2, 3], False), ([4], False)]
    assert noted.index(([1], True)) < noted.index(([2, 3], False))


def test_k1_late_rows_are_rejected(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    made = sink(late="reject", dead_letters=noting(take, tmp_path / "dead"))
    made(frame(spark, ROWS), 0)
    made(frame(spark, LATER), 1)

    assert [one["numbers"] for one in notes(tmp_path / "dead")] == [[1]]
    assert sorted(one["numbers"] for one in notes(log) if one["batch"] == 1) == [[2, 3], [4]]
    assert made.last is not None
    assert (made.last.late_rows, made.last.rejected_rows) == (1, 1)


def test_late_hold_needs_a_stream_of_hold_back(spark: SparkSession, sink: Made) -> None:
    with pytest.raises(ValueError, match="hold_back"):
        sink(late="hold")(frame(spark, ROWS), 0)


def test_k6_one_sequence_for_each_lane(spark: SparkSession, sink: Made, log: Path) -> None:
    rows = frame(spark, [*ROWS, (None, at(2), 9)])
    lanes = rows.withColumn("kind", functions.expr("if(subject = 'a', 'x', 'y')"))
    made = sink(order="global", lane="kind", max_batch_size=3, rows="tuple")

    made(lanes.select("subject", "at", "kind", "n"), 0)

    assert taken(log, "x") == [[10, 20, 30]]
    assert [one["numbers"] for one in notes(log) if one["subject"] is None] == [[9]]
    assert [sorted(one) for one in taken(log, "y")] == [[11, 12], [21, 22], [31, 32]] or [
        sorted(one) for one in taken(log, "y")
    ] == [[11, 12, 21], [22, 31, 32]]


def test_k1_in_a_lane_rows_are_late_by_subject_also_in_a_replay(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    def lanes(rows: list[Row]) -> DataFrame:
        return frame(spark, rows).withColumn("kind", functions.lit("x"))

    made = sink(order="global", lane="kind")
    made(lanes([("a", at(5), 1), ("b", at(9), 2)]), 0)
    later = lanes([("a", at(7), 3), ("b", at(3), 4), ("c", at(1), 5), ("a", at(4), 6)])
    for _ in range(2):
        made(later, 1)

    noted = [(one["numbers"], one["late"]) for one in notes(log) if one["batch"] == 1]
    assert noted == [([4, 6], True), ([5, 3], False)]
    assert made.last is not None
    assert made.last.replayed_rows == 4


def test_k1_a_lane_begun_by_an_older_version_is_finished_by_its_rule_of_lateness(
    spark: SparkSession,
    sink: Made,
    log: Path,
    shared_redis: EmbeddedRedis,
    connect: Callable[[str], Redis],
) -> None:
    def lanes(rows: list[Row]) -> DataFrame:
        return frame(spark, rows).withColumn("kind", functions.lit("x"))

    made = sink(order="global", lane="kind", max_batch_size=1)
    made(lanes([("a", at(5), 1), ("b", at(9), 2)]), 0)
    made(lanes([("a", at(7), 3)]), 1)
    (stream,) = connect(shared_redis.url).keys("dispatcher:spark:v1:{orders}:stream:*")
    connect(shared_redis.url).hdel(stream, "division")  # an older version had no such field
    made(lanes([("a", at(7), 3), ("c", at(8), 4)]), 1)

    noted = [(one["numbers"], one["late"]) for one in notes(log) if one["batch"] == 1]
    assert noted == [([3], False), ([4], True)]


def test_k6_global_order_is_one_sequence(spark: SparkSession, sink: Made, log: Path) -> None:
    made = sink(order="global", max_batch_size=4)

    made(frame(spark, ROWS), 0)
    made(frame(spark, ROWS), 0)

    noted = [one["numbers"] for one in notes(log)]
    assert [n // 10 for one in noted for n in one] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert all(one["subject"] is None for one in notes(log))


@pytest.mark.parametrize("whose", sample(["lane", "subject"], every=2))
def test_k3_a_subject_that_is_a_time_is_the_same_in_every_time_zone(
    spark: SparkSession, sink: Made, log: Path, whose: str
) -> None:
    options = {"subject": "born"} if whose == "subject" else {"order": "global", "lane": "born"}
    made = sink(**options)
    for zone in ("America/New_York", "Asia/Kolkata"):
        session = spark.newSession()
        session.conf.set("spark.sql.session.timeZone", zone)
        born = functions.expr("timestamp_seconds(3600 * ascii(subject))")
        made(frame(session, ROWS).withColumn("born", born), 0)

    assert made.last is not None
    assert (made.last.replayed_rows, len(notes(log))) == (9, 3)
    assert {one["subject"] for one in notes(log)} == {
        f"1970-01-05 0{hour}:00:00+00:00" for hour in (1, 2, 3)
    }


@pytest.mark.parametrize(
    "kind", sample(["timestamp", "timestamp_ntz", "date", "long", "double"], every=2)
)
def test_times_of_every_type_are_sent_in_order(
    spark: SparkSession, sink: Made, log: Path, kind: str
) -> None:
    times = {
        "timestamp": "timestamp_seconds(n)",
        "timestamp_ntz": "cast(timestamp_seconds(n) as timestamp_ntz)",
        "date": "date_add(date'2026-01-01', cast(n as int))",
        "long": "n",
        "double": "cast(n as double) / 3",
    }
    rows = frame(spark, ROWS).withColumn("at", functions.expr(times[kind]))
    made = sink(max_batch_size=2)

    made(rows, 0)
    made(rows.where("n = 10"), 1)

    assert taken(log, "a") == [[10, 20], [30], [10]]
    assert [one["late"] for one in notes(log) if one["subject"] == "a"] == [False, False, True]
