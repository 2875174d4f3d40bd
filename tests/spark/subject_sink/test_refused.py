"""A SubjectSink refuses a micro-batch before anything is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dispatcher.spark import ChangedSinkError
from tests.spark.subject_sink.orders import ROWS, Made, frame, taken


def test_a_handler_that_executors_cannot_import_fails_before_anything_is_sent(
    spark: SparkSession, sink: Made
) -> None:
    with pytest.raises(PySparkException, match=r"module 'no\.such' cannot be imported"):
        sink("no.such:handler")(frame(spark, ROWS), 0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("1 as n, at, 'a' as subjects", "subject must be a column of the DataFrame, not 'subject'"),
        ("map('a', 1) as subject, at", "subject must be a column that .*; it is a map"),
        ("1.5D as subject, at", "subject must be a column that .*; it is a double"),
        pytest.param(
            "subject collate utf8_lcase as subject, at",
            "in which texts that differ are the same",
            marks=pytest.mark.spark4,
        ),
        ("subject, cast(at as string) as at", "time must be a column that .*; it is a string"),
        ("subject, n", "time must be a column of the DataFrame, not 'at'"),
    ],
)
def test_the_error_names_unusable_columns_before_anything_is_sent(
    spark: SparkSession, sink: Made, columns: str, message: str
) -> None:
    frame(spark, ROWS).createOrReplaceTempView("rows")

    with pytest.raises(ValueError, match=message):
        sink()(spark.sql(f"select {columns} from rows"), 0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dispatcher_cost", {"cost": "n"}),
        ("Dispatcher_Cost", {"cost": "n"}),
        ("dispatcher_lane", {"order": "global", "lane": "subject"}),
    ],
)
def test_a_column_of_the_user_is_not_overwritten(
    spark: SparkSession, sink: Made, name: str, options: dict[str, Any]
) -> None:
    rows = frame(spark, ROWS).selectExpr("*", f"'mine' as {name}")

    with pytest.raises(ValueError, match=f"have no column '{name}'.*withColumnRenamed"):
        sink(**options)(rows, 0)


def test_a_column_of_the_user_may_have_the_name_if_the_sink_adds_none(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink()(frame(spark, ROWS).selectExpr("*", "'mine' as dispatcher_cost"), 0)

    assert taken(log, "a") == [[10, 20, 30]]


def test_a_time_column_whose_type_changes_is_refused(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink()(frame(spark, ROWS[:3]), 0)

    dates = frame(spark, ROWS).selectExpr("subject", "cast(at as date) as at", "n")
    with pytest.raises(ChangedSinkError, match="a timestamp so far, and is a date now"):
        sink()(dates, 1)

    assert taken(log, "a") == [[30]]
