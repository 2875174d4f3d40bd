"""A SubjectSink whose query has changed during a micro-batch, and one with unusual values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from dispatcher.spark import ChangedSinkError, DeadLetterTable
from tests.samples import sample, tuples
from tests.spark.handlers import fail_at, note, notes, noting, take
from tests.spark.subject_sink.orders import ROWS, Made, at, frame, taken


def stopped_half_way(sink: Made, log: Path, rows: DataFrame, **options: Any) -> Made:
    """Return a sink that sent rows 10 and 20 of each subject and then failed; it does not fail
    again."""

    def made(handler: Any = None, **more: Any) -> Any:
        return sink(handler, max_batch_size=1, **options, **more)

    with pytest.raises(PySparkException, match="is not liked"):
        made(noting(fail_at, log, number=30))(rows, 5)
    assert taken(log, "a") == [[10], [20]]
    return made


def test_k3_a_filter_that_drops_rows_that_were_sent_stops_the_query(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    rows = frame(spark, ROWS)
    made = stopped_half_way(sink, log, rows)

    with pytest.raises(PySparkException, match=r"ChangedSinkError.*of subject 'a', 2 rows"):
        made()(rows.where("n <> 10"), 5)
    assert taken(log, "a") == [[10], [20]]

    made()(rows.where("n <> 30"), 5)
    made()(rows, 5)
    assert taken(log, "a") == [[10], [20], [30]]


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ("where subject <> 'a'", {}),
        pytest.param("upper(subject) as subject", {}, marks=pytest.mark.long),
        ("upper(subject) as subject", {"identity": ["n"]}),
        pytest.param(
            "lane + 1 as lane", {"order": "global", "lane": "lane"}, marks=pytest.mark.long
        ),
    ],
)
def test_k3_a_subject_that_is_missing_or_has_another_name_stops_the_query(
    spark: SparkSession, sink: Made, log: Path, change: str, options: dict[str, Any]
) -> None:
    options = {"partitions": 1} | options  # no other task goes on sending
    rows = frame(spark, ROWS).selectExpr("*", "ascii(subject) as lane")
    with pytest.raises(PySparkException, match="is not liked"):
        sink(noting(fail_at, log, number=30), max_batch_size=1, **options)(rows, 5)
    sent = notes(log)
    assert [20] in [one["numbers"] for one in sent]

    if change.startswith("where"):
        changed = rows.where(change.removeprefix("where "))
    else:
        value, name = change.split(" as ")
        changed = rows.withColumn(name, expr(value))
    with pytest.raises(
        ChangedSinkError, match=r"of micro-batch 5 of query 'orders' were sent befo"
    ):
        sink(max_batch_size=1, **options)(changed, 5)
    assert notes(log) == sent

    sink(max_batch_size=1, **options)(rows, 5)
    numbers = sorted(number for one in notes(log) for number in one["numbers"])
    assert numbers == sorted(n for _, _, n in ROWS)


def test_k3_columns_in_another_order_are_the_same_rows(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    rows = frame(spark, ROWS)
    made = stopped_half_way(sink, log, rows)

    made()(rows.select("n", "at", "subject"), 5)

    assert taken(log, "a") == [[10], [20], [30]]


def test_k3_columns_that_differ_in_each_run_have_to_be_left_out_of_identity(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    def computed() -> DataFrame:
        return frame(spark, ROWS).selectExpr("*", "uuid() as mark", "map('n', n) as others")

    made = stopped_half_way(sink, log, computed())
    with pytest.raises(PySparkException, match=r"identity=\[\.\.\.\]"):
        made()(computed(), 5)

    again = log.with_name("again")
    made = stopped_half_way(sink, again, computed(), query="others", identity=["n"])
    made(noting(take, again))(computed(), 5)
    assert taken(again, "a") == [[10], [20], [30]]

    with pytest.raises(ValueError, match="identity must name columns of df, not 'm'; there are"):
        sink(identity=["m"])(computed(), 6)


def test_intervals_of_months_are_refused_with_the_name_of_their_column(
    spark: SparkSession, sink: Made
) -> None:
    rows = frame(spark, ROWS).selectExpr("*", "array(INTERVAL '1' MONTH) as spans")

    with pytest.raises(ValueError, match=r"column 'spans' must be .*, not 'array<interval month>'"):
        sink()(rows, 0)


def far(rows: list[Any], *, path: str) -> None:
    """Note the column `until` of each row."""
    for row in rows:
        note(path, {"n": row["n"], "until": row["until"]})


@pytest.mark.parametrize("target", sample(["table", "function"], every=2))
def test_a_time_after_the_year_9999_is_a_dead_letter(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path, target: str
) -> None:
    last = "timestamp'9999-12-31 20:00:00 America/New_York'"
    rows = frame(spark, ROWS).selectExpr("*", f"if(n = 20, {last}, at) as until")
    dead = tmp_path / "dead"
    where = noting(take, dead) if target == "function" else DeadLetterTable(str(dead))

    made = sink(noting(far, log), dead_letters=where)
    made(rows, 0)

    assert sorted(one["n"] for one in notes(log)) == sorted({row[2] for row in ROWS} - {20})
    assert made.last is not None
    assert (made.last.sent_rows, made.last.rejected_rows) == (8, 1)
    if target == "function":
        (noted,) = notes(dead)
        assert (noted["numbers"], noted["reason"][:11]) == ([20], "its until (")
    else:
        (row,) = spark.read.parquet(str(dead)).where(f"until = {last}").select("n").collect()
        assert row.n == 20


@pytest.mark.parametrize(
    ("sent", "unsent"),
    tuples(
        [
            ("struct(cast(null as int) as a, 1 as b)", "struct(1 as a, cast(null as int) as b)"),
            ("struct(array(1) as a, array(2) as b)", "struct(array(1, 2) as a, array() as b)"),
        ],
        every=2,
    ),
    ids=["where a null is", "in which array an element is"],
)
def test_k3_rows_that_differ_only_inside_a_nested_value_are_different(
    spark: SparkSession, sink: Made, log: Path, sent: str, unsent: str
) -> None:
    rows = frame(spark, [("a", at(1), 10), ("a", at(1), 20)])
    rows = rows.selectExpr("*", f"if(n = 10, {sent}, {unsent}) as nested")
    how: dict[str, Any] = {"identity": ["nested"], "max_batch_size": 1}

    with pytest.raises(PySparkException, match="is not liked"):
        sink(noting(fail_at, log, number=20), **how)(rows, 5)
    with pytest.raises(PySparkException, match=r"ChangedSinkError.*of subject 'a', 1 rows"):
        sink(**how)(rows.where("n <> 10"), 5)
    sink(**how)(rows, 5)

    assert taken(log, "a") == [[10], [20]]
