"""dispatch, for DataFrames that are not streams, and the format "dispatcher"."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dispatcher.spark import ChangedSinkError, LimiterConfig, dispatch
from limiters.embedded import EmbeddedRedis
from tests.spark.handlers import fail_at, notes, noting, take
from tests.spark.streams import LONG


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def sent(log: Path) -> list[int]:
    return sorted(n for one in notes(log) for n in one["numbers"])


def test_all_rows_are_sent_in_batches_in_no_order(spark: SparkSession, log: Path) -> None:
    rows = spark.range(1_000).withColumnRenamed("id", "n")

    summary = dispatch(rows, noting(take, log), max_batch_size=300, rows="dict", partitions=2)

    assert sent(log) == list(range(1_000))
    assert max(len(one["numbers"]) for one in notes(log)) <= 300
    assert (summary.rows, summary.sent_rows) == (1_000, 1_000)


def test_the_limit_is_kept_and_progress_is_shown(
    spark: SparkSession, log: Path, shared_redis: EmbeddedRedis, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = spark.range(400).withColumnRenamed("id", "n")
    limiter = LimiterConfig(url=shared_redis.url, name="orders", shared_capacity=400, factor=20)

    summary = dispatch(
        rows, noting(take, log), max_batch_size=20, limiter=limiter, rows="arrow", total=400
    )

    assert sent(log) == list(range(400))
    assert summary.used is not None
    assert "400 of 400 rows (100%)" in capfd.readouterr().err


def test_a_job_in_order_is_resumed_under_its_name(
    spark: SparkSession, log: Path, shared_redis: EmbeddedRedis
) -> None:
    rows = spark.range(100).selectExpr("id % 7 as subject", "id as at", "id as n")
    options: dict[str, Any] = {"subject": "subject", "time": "at", "job": "back-fill"}
    options["redis"] = shared_redis.url
    failing = noting(fail_at, log, number=50, how="once")

    with pytest.raises(PySparkException, match="row 50 is not liked"):
        dispatch(rows, failing, max_batch_size=5, rows="dict", **options)
    # Other tasks of the failed job may go on until the next job has its claim.
    summary = dispatch(rows, failing, max_batch_size=5, rows="dict", **options)

    assert sent(log) == list(range(100))
    assert summary.replayed_rows + summary.sent_rows == 100
    assert summary.replayed_rows >= 5  # those of the batch before the one that failed


def test_a_job_that_is_called_again_with_another_subject_sends_nothing_again(
    spark: SparkSession, log: Path, shared_redis: EmbeddedRedis
) -> None:
    rows = spark.range(10).selectExpr("id % 3 as subject", "id % 2 as other", "id as at", "id as n")
    options: dict[str, Any] = {"time": "at", "job": "back-fill", "rows": "dict"}
    options["redis"] = shared_redis.url
    dispatch(rows, noting(take, log), subject="subject", **options)

    with pytest.raises(ChangedSinkError, match="give it another name"):
        dispatch(rows, noting(take, log), subject="other", **options)

    assert sent(log) == list(range(10))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subject": "n"}, "time must go with subject"),
        ({"job": "x"}, "job must go with subject and time"),
        ({"total": 0}, "total"),
        ({"subject": "n", "time": "n", "job": "x"}, "redis must say where"),
    ],
)
def test_wrong_arguments_are_refused(
    spark: SparkSession, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        dispatch(spark.range(3), "tests.spark.handlers:only_rows", **options)


def test_a_stream_is_refused(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()

    with pytest.raises(ValueError, match="a stream takes a SubjectSink"):
        dispatch(stream, "tests.spark.handlers:only_rows")


COUNT = "tests.spark.test_dispatch:count_rows"


def register(spark: SparkSession) -> None:
    from dispatcher.spark.sinks.data_source import DispatcherDataSource  # Spark 3.5 has none

    spark.dataSource.register(DispatcherDataSource)


def count_rows(rows: list[dict[str, str]]) -> None:
    """Append a line for each row to the file that the rows name."""
    with open(rows[0]["path"], "a") as file:
        file.writelines("x\n" for _ in rows)


@pytest.mark.spark4
def test_the_format_sends_a_dataframe_and_a_stream(
    spark: SparkSession, log: Path, tmp_path: Path, shared_redis: EmbeddedRedis
) -> None:
    register(spark)
    options = {
        "handler": COUNT,
        "rows": "dict",
        "maxBatchSize": "30",
        "redis": shared_redis.url,
        "limit": "orders",
        "sharedCapacity": "10000",
        "factor": "100",
    }
    rows = spark.range(100).selectExpr("id as n", f"'{log}' as path")
    rows.write.json(str(tmp_path / "rows"))

    rows.write.format("dispatcher").options(**options).mode("append").save()
    assert len(log.read_text().splitlines()) == 100

    query = (
        spark.readStream.schema("n long, path string")
        .json(str(tmp_path / "rows"))
        .writeStream.format("dispatcher")
        .options(**options)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(LONG)
    assert query.exception() is None
    assert len(log.read_text().splitlines()) == 200


@pytest.mark.spark4
def test_k8_the_format_sends_each_subject_in_order_in_batches_of_many(
    spark: SparkSession, log: Path
) -> None:
    register(spark)
    rows = spark.range(600).selectExpr(
        "concat('s', id % 100) as subject", "600 - id as at", "id as n", f"'{log}' as path"
    )
    options = {
        "handler": "tests.spark.test_dispatch:take_in_order",
        "rows": "dict",
        "subject": "subject",
        "time": "at",
        "maxBatchSize": "120",
        "concurrency": "1",
    }
    parts = rows.repartition(2, "subject")
    parts.write.format("dispatcher").options(**options).mode("append").save()

    assert sent(log) == list(range(600))
    assert len({one["pack"] for one in notes(log)}) <= 600 / 120 + 2
    for one in notes(log):
        assert one["numbers"] == sorted(one["numbers"], reverse=True)
        assert len(one["numbers"]) == 6


def take_in_order(rows: list[dict[str, Any]], context: Any) -> None:
    """Note the rows in the file that they name."""
    take(rows, context, path=rows[0]["path"])


@pytest.mark.spark4
def test_the_options_of_the_format_in_the_docs_make_a_job(spark: SparkSession) -> None:
    from dispatcher.spark.sinks.data_source import job_of

    page = Path(__file__).parents[2].joinpath("docs", "spark.md").read_text()
    options = dict(re.findall(r'[.]option[(]"(\w+)", "?([^")]+)"?[)]', page))

    assert {"handler", "redis", "limit", "sharedCapacity", "checkpointLocation"} <= set(options)
    job = job_of(options, spark.range(3).schema)
    assert job.sending.limiter is not None


def fails_once(rows: list[dict[str, str]]) -> None:
    """Note the rows in the file that they name. The first call then fails."""
    first = not Path(rows[0]["path"]).exists()
    count_rows(rows)
    if first:
        raise RuntimeError("the first call fails")


@pytest.mark.spark4
def test_v3_the_format_charges_rows_and_batches_in_several_dimensions(
    spark: SparkSession, log: Path, shared_redis: EmbeddedRedis
) -> None:
    register(spark)
    rows = spark.range(60).selectExpr(
        "concat('s', id % 10) as subject", "id as at", "id as n", "40 as size", f"'{log}' as path"
    )
    options = {
        "handler": "tests.spark.test_dispatch:take_in_order",
        "rows": "dict",
        "subject": "subject",
        "time": "at",
        "redis": shared_redis.url,
        "limit": "api",
        "sharedCapacity": "requests=1000/1s, tokens=250/1s+100/0.1s, calls=2slots",
        "cost": "requests=0.5, tokens=size / 4",
        "batchCost": "requests=1, tokens=5, calls=1",
        "maxBatchCost": "requests=50",
    }
    rows.repartition(2, "subject").write.format("dispatcher").options(**options).mode(
        "append"
    ).save()

    assert sent(log) == list(range(60))
    packs = Counter[str]()
    for one in notes(log):
        packs[one["pack"]] += len(one["numbers"])
    # Ten tokens a row, and 95 in a batch: one subject of six rows; there is no room for another.
    assert set(packs.values()) == {6}


@pytest.mark.spark4
def test_the_format_sends_a_failed_batch_again(spark: SparkSession, log: Path) -> None:
    register(spark)
    rows = spark.range(5).selectExpr("id as n", f"'{log}' as path").coalesce(1)
    handler = "tests.spark.test_dispatch:fails_once"
    options = {"handler": handler, "rows": "dict", "retryWait": "0.01", "maxAttempts": "2"}

    rows.write.format("dispatcher").options(**options).mode("append").save()

    assert len(log.read_text().splitlines()) == 10


@pytest.mark.spark4
def test_wrong_options_are_refused_before_any_task_starts(spark: SparkSession) -> None:
    """Each of them: tests/unit/spark/test_options.py."""
    register(spark)
    options = {"handler": COUNT, "maxBatchSize": "0"}

    with pytest.raises(PySparkException, match="maxBatchSize must be at least 1, not 0"):
        spark.range(3).write.format("dispatcher").options(**options).mode("append").save()
