"""What a SubjectSink refuses, before anything is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dispatcher.errors import HandlerError
from dispatcher.registration import RedisEntityStore
from dispatcher.spark import ChangedSinkError, SubjectSink
from limiters.embedded import EmbeddedRedis
from tests.spark.handlers import only_rows
from tests.spark.subject_sink.orders import ROWS, Made, frame, taken


def generates(batch: list[Any]) -> Iterator[Any]:
    """Runs nothing when it is called."""
    yield from batch


async def awaits(batch: list[Any]) -> None:
    """Runs nothing until it is awaited."""


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"subject": ""}, "subject must be the name of a column"),
    ({"time": 5}, "time must be the name of a column"),
    ({"order": "some"}, "order must be 'subject' or 'global'"),
    ({"lane": "x"}, "lane must go with order='global'"),
    ({"gate": 5}, "gate must be a RedisEntityStore"),
    (
        {"gate": RedisEntityStore("redis://x", name="x"), "order": "global"},
        "gate must go with order",
    ),
    ({"late": "never"}, "late must be"),
    ({"late": "reject"}, "dead_letters must be given with late='reject'"),
    (
        {"late": "reject", "dead_letters": only_rows, "ledger": False},
        "ledger must be True with late='reject'",
    ),
    ({"rows": "pandas"}, "rows must be 'row', 'dict', 'tuple' or 'arrow'"),
    ({"rows": ["dict"]}, r"rows must be .*, not \['dict'\]"),
    ({"max_batch_size": 0}, "max_batch_size"),
    ({"concurrency": 0}, "concurrency"),
    ({"concurrency": 1_000_000}, "concurrency must be at most 1,000, not 1000000"),
    ({"cost": -1}, "cost"),
    ({"cost": [1]}, r"cost must be a number, an SQL expression, .*not \[1\]"),
    ({"cost": ""}, "cost must be a number, an SQL expression"),
    ({"cost": None}, "cost must be a number, an SQL expression"),
    ({"cost": True}, "cost must be a number"),
    ({"identity": "n"}, "identity must be a list of names of columns, not 'n'"),
    ({"identity": [5]}, "identity must be a list of names"),
    ({"max_attempts": 3}, "max_attempts must go with retry"),
    ({"ledger": "no"}, "ledger must be True or False, not 'no'"),
    ({"prefix": ""}, "prefix must be"),
    ({"redis": 6379}, "redis must be a URL that executors can be given"),
    ({"dead_letters": lambda: None}, "it must take a batch"),
    ({"dead_letters": generates}, "dead_letters must not be a generator function"),
    ({"handler": generates}, "handler must not be a generator function"),
    ({"on_micro_batch": awaits}, "on_micro_batch must be a plain function"),
    ({"handler": lambda: None}, "it must take a batch"),
    ({"handler": lambda batch, context, other: None}, "it must take a batch"),
    ({"retry": 5}, "retry must be"),
    ({"dead_letters": 5}, "dead_letters must be"),
    ({"limiter": "redis://x"}, "limiter must be a LimiterConfig"),
    ({"redis": None}, "redis must say where"),
    ({"redis": "http://x"}, "redis"),
    ({"query": ""}, "query must be"),
    ({"lease_time": 0.1}, "lease_time must be at least 1"),
    ({"lease_time": 1e30}, "lease_time must be at most 86400 seconds"),
    ({"remember": 1e30}, "remember must be at most 100 years"),
    ({"partitions": 2**31}, "partitions must be at most 100,000, not 2147483648"),
    ({"rows": ["row"]}, "rows must be 'row', 'dict', 'tuple' or 'arrow'"),
    ({"lane": "", "order": "global"}, "lane must be the name of a column"),
    ({"cost": awaits}, "cost must be a plain function"),
    ({"cost": generates}, "cost must not be a generator function"),
    ({"on_micro_batch": 5}, "on_micro_batch"),
    ({"partitions": 0}, "partitions"),
]


@pytest.mark.parametrize(("told", "said"), WRONG)
def test_wrong_arguments_are_refused_when_it_is_made(
    sink: Made, told: dict[str, Any], said: str
) -> None:
    with pytest.raises((ValueError, HandlerError), match=said):
        sink(**told)


@pytest.mark.parametrize("handler", [5, "send", None])
def test_what_is_no_handler_is_refused_when_it_is_made(
    shared_redis: EmbeddedRedis, handler: Any
) -> None:
    with pytest.raises(ValueError, match="handler must be"):
        SubjectSink(handler, subject="a", time="b", redis=shared_redis.url)


def test_a_handler_that_cannot_travel_is_refused_when_it_is_made(sink: Made) -> None:
    lock = threading.Lock()

    with pytest.raises(
        ValueError, match="handler must be something that can be sent to the executors"
    ):
        sink(lambda rows: lock.acquire())


def test_a_handler_that_executors_cannot_import_fails_before_anything_is_sent(
    spark: SparkSession, sink: Made
) -> None:
    with pytest.raises(PySparkException, match=r"module 'no\.such' cannot be imported"):
        sink("no.such:handler")(frame(spark, ROWS), 0)


@pytest.mark.parametrize(
    ("columns", "said"),
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
def test_columns_that_cannot_serve_are_named_before_anything_is_sent(
    spark: SparkSession, sink: Made, columns: str, said: str
) -> None:
    frame(spark, ROWS).createOrReplaceTempView("rows")

    with pytest.raises(ValueError, match=said):
        sink()(spark.sql(f"select {columns} from rows"), 0)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("dispatcher_cost", {"cost": "n"}),
        ("Dispatcher_Cost", {"cost": "n"}),
        ("dispatcher_lane", {"order": "global", "lane": "subject"}),
    ],
)
def test_a_column_of_the_users_own_is_not_overwritten(
    spark: SparkSession, sink: Made, name: str, told: dict[str, Any]
) -> None:
    rows = frame(spark, ROWS).selectExpr("*", f"'mine' as {name}")

    with pytest.raises(ValueError, match=f"have no column '{name}'.*withColumnRenamed"):
        sink(**told)(rows, 0)


def test_a_column_is_the_users_own_where_the_sink_adds_none(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink()(frame(spark, ROWS).selectExpr("*", "'mine' as dispatcher_cost"), 0)

    assert taken(log, "a") == [[10, 20, 30]]


def test_a_time_that_becomes_one_of_another_type_is_refused(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink()(frame(spark, ROWS[:3]), 0)

    dates = frame(spark, ROWS).selectExpr("subject", "cast(at as date) as at", "n")
    with pytest.raises(ChangedSinkError, match="a timestamp so far, and is a date now"):
        sink()(dates, 1)

    assert taken(log, "a") == [[30]]
