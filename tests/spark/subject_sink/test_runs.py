"""The runs of a SubjectSink, as the driver reports them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from redis import Redis

from dispatcher.spark import (
    MicroBatch,
    SupersededError,
)
from limiters.embedded import EmbeddedRedis
from tests.spark.handlers import fail_at, notes, noting
from tests.spark.streams import LONG
from tests.spark.subject_sink.orders import LATER, ROWS, Made, frame


def test_on_micro_batch_receives_each_micro_batch_and_redis_stores_the_totals(
    spark: SparkSession,
    sink: Made,
    shared_redis: EmbeddedRedis,
    connect: Callable[[str], Redis],
) -> None:
    received: list[MicroBatch] = []
    made = sink(on_micro_batch=received.append, pack=False)
    made(frame(spark, ROWS), 0)
    made(frame(spark, LATER), 1)

    assert [(one.batch_id, one.rows, one.late_rows) for one in received] == [(0, 9, 0), (1, 4, 1)]
    assert "orders #1: 4 of 4 rows in 3 batches, 3 calls" in str(received[1])
    assert all(one.calls == one.batches and one.handling > 0 for one in received)
    totals = connect(shared_redis.url).hgetall("dispatcher:spark:v1:{orders}:totals")
    assert float(totals[b"sent_rows"]) == 13
    assert float(totals[b"micro_batches"]) == 2
    assert float(totals[b"calls"]) == sum(one.calls for one in received)
    assert float(totals[b"handling"]) == pytest.approx(
        sum(one.calls * one.handling for one in received)
    )
    assert connect(shared_redis.url).zrange("dispatcher:spark:v1:known", 0, -1) == [b"orders"]


def descriptions(spark: SparkSession) -> list[str]:
    """Return the descriptions of all jobs in Spark's UI."""
    jobs: Any = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(place).description() for place in range(jobs.size())]
    return [one.get() for one in found if one.isDefined()]


DESCRIPTION = "spark.job.description"


def test_sparks_ui_describes_this_micro_batch_and_the_result_of_the_one_before(
    spark: SparkSession, sink: Made
) -> None:
    context = spark.sparkContext
    made = sink(query="described", pack=False)
    made(frame(spark, ROWS), 0)
    assert context.getLocalProperty(DESCRIPTION) is None
    context.setJobDescription("of the user's")
    try:
        made(frame(spark, LATER), 1)
        assert context.getLocalProperty(DESCRIPTION) == "of the user's"
    finally:
        context.setLocalProperty(DESCRIPTION, None)  # type: ignore[arg-type]

    assert "SubjectSink sends described #0" in descriptions(spark)
    before = "before: described #0: 9 of 9 rows in 3 batches, 3 calls"
    now = f"of the user's\nSubjectSink sends described #1\n{before}"
    assert [one for one in descriptions(spark) if one.startswith(now)]


def test_the_description_is_restored_after_a_micro_batch_that_failed(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    made = sink(noting(fail_at, log, number=10), query="failing")
    with pytest.raises(PythonException):
        made(frame(spark, ROWS), 0)

    assert spark.sparkContext.getLocalProperty(DESCRIPTION) is None
    assert "SubjectSink sends failing #0" in descriptions(spark)


async def receive(done: MicroBatch) -> None:
    """Do nothing until it is awaited."""


def test_a_coroutine_that_on_micro_batch_returns_is_reported(
    spark: SparkSession, sink: Made, caplog: pytest.LogCaptureFixture
) -> None:
    sink(on_micro_batch=lambda done: receive(done))(frame(spark, ROWS), 0)

    assert "on_micro_batch raised; the micro-batch has been sent" in caplog.text
    assert "whose work is yet to be done" in caplog.text


def test_k7_a_superseded_sink_raises_an_error(spark: SparkSession, sink: Made) -> None:
    first, second = sink(), sink()
    first(frame(spark, ROWS), 0)
    second(frame(spark, ROWS), 0)

    with pytest.raises(SupersededError, match="give each sink a query name of its own"):
        first(frame(spark, ROWS), 1)


def test_a_sink_runs_in_a_stream_under_the_name_of_its_query(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    frame(spark, ROWS).write.json(str(tmp_path / "rows"))
    made = sink(query=None)
    rows = spark.readStream.schema("subject string, at timestamp, n long").json(
        str(tmp_path / "rows")
    )

    query = (
        rows.writeStream.foreachBatch(made)
        .queryName("readings")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(LONG)

    assert made.last is not None
    assert made.last.query == "readings"
    assert (made.last.query_id, made.last.run_id) == (str(query.id), str(query.runId))
    assert sorted(n for one in notes(log) for n in one["numbers"]) == sorted(r[2] for r in ROWS)
    batch = f"readings\nid = {query.id}\nrunId = {query.runId}\nbatch = 0"
    assert f"{batch}\nSubjectSink sends readings #0" in descriptions(spark)


@pytest.mark.parametrize("name", ["readings", None])
def test_a_query_whose_jobs_the_user_describes_needs_a_name(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path, name: str | None
) -> None:
    frame(spark, ROWS).write.json(str(tmp_path / "rows"))
    rows = spark.readStream.schema("subject string, at timestamp, n long").json(
        str(tmp_path / "rows")
    )
    made = sink(query=name)

    def described(df: DataFrame, number: int) -> None:
        df.sparkSession.sparkContext.setJobGroup("nightly", f"batch {number}")
        made(df, number)

    query = (
        rows.writeStream.foreachBatch(described)
        .queryName("orders")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    if name is None:
        with pytest.raises(StreamingQueryException, match=r"query must be given here.*setJob"):
            query.awaitTermination(LONG)
        assert not notes(log)
        return
    assert query.awaitTermination(LONG)
    assert made.last is not None
    assert (made.last.query, made.last.query_id) == (name, str(query.id))
    assert made.last.run_id == "", "the user's job group is no run"


def test_k3_two_sinks_in_one_query_are_an_error_before_a_row_is_left_out(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    frame(spark, ROWS).write.json(str(tmp_path / "rows"))
    rows = spark.readStream.schema("subject string, at timestamp, n long").json(
        str(tmp_path / "rows")
    )
    early, late = sink(query=None), sink(query=None)

    def both(df: DataFrame, number: int) -> None:
        early(df.where("n < 20"), number)
        late(df.where("n >= 20"), number)

    query = (
        rows.writeStream.foreachBatch(both)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(StreamingQueryException, match="start a query of its own for each"):
        query.awaitTermination(LONG)
