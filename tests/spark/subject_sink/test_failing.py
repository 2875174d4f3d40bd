"""A SubjectSink whose batches fail, or whose rows cannot be sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tenacity import stop_after_attempt, wait_fixed

from dispatcher.outcomes import Reject
from dispatcher.spark import (
    DeadLetterTable,
    DeadLetterTimeline,
)
from dispatcher.timeline import Timeline
from limiters.embedded import EmbeddedRedis
from tests.samples import sample
from tests.spark.handlers import fail_at, notes, noting, take
from tests.spark.subject_sink.orders import ROWS, Made, Row, at, frame, taken


def test_k2_k3_a_batch_that_is_given_up_fails_the_query_and_a_replay_sends_the_rest(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    once = sink(noting(fail_at, log, number=20, how="once"), max_batch_size=1)

    with pytest.raises(PySparkException, match="row 20 is not liked"):
        once(frame(spark, ROWS), 5)
    # No row of the subject overtakes the one that has failed.
    assert taken(log, "a") == [[10]]

    once(frame(spark, ROWS), 5)

    assert {subject: taken(log, subject) for subject in "abc"} == {
        "a": [[10], [20], [30]],
        "b": [[11], [21], [31]],
        "c": [[12], [22], [32]],
    }
    assert once.last is not None
    # Their number is not known: the other task may have gone on after this one had failed.
    assert once.last.replayed_rows + once.last.sent_rows == 9
    assert once.last.replayed_rows >= 1
    assert len({one["key"] for one in notes(log)}) == 9


def test_k3_a_batch_has_the_same_key_in_each_run(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    sink(ledger=False)(frame(spark, ROWS), 5)
    sink(ledger=False)(frame(spark, ROWS).repartition(3), 5)

    keys = [one["key"] for one in notes(log)]
    assert sorted(keys[:3]) == sorted(keys[3:])


@pytest.mark.parametrize("how", sample(["once", "retry", "throttled"], every=2))
def test_a_failed_batch_is_tried_again_before_later_ones_of_its_subject(
    spark: SparkSession, sink: Made, log: Path, how: str
) -> None:
    handler = noting(fail_at, log, number=20, how=how)
    made = sink(handler, max_batch_size=1, retry=(wait_fixed(0.01), stop_after_attempt(3)))

    made(frame(spark, ROWS), 0)

    assert taken(log, "a") == [[10], [20], [30]]
    assert made.last is not None
    assert (made.last.retries, made.last.throttled) == (1, int(how == "throttled"))


def test_dead_letters_go_to_a_function_and_the_rest_of_the_subject_goes_on(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    made = sink(
        noting(fail_at, log, number=20, how="reject"),
        max_batch_size=1,
        dead_letters=noting(take, tmp_path / "dead"),
    )

    made(frame(spark, ROWS), 0)

    assert taken(log, "a") == [[10], [30]]
    (dead,) = notes(tmp_path / "dead")
    assert (dead["numbers"], dead["reason"]) == ([20], "Reject: rejected: not wanted")
    assert made.last is not None
    assert (made.last.sent_rows, made.last.rejected_rows) == (8, 1)


def test_dead_letters_go_to_a_table_that_spark_reads(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    place = str(tmp_path / "dead")
    made = sink(noting(fail_at, log, number=20), dead_letters=DeadLetterTable(place))

    made(frame(spark, ROWS), 3)
    made(frame(spark, ROWS), 3)

    dead = spark.read.parquet(place).orderBy("n").collect()
    assert [(row.n, row.dead_batch_id) for row in dead] == [(10, 3), (20, 3), (30, 3)]
    assert dead[0].dead_reason == "RuntimeError: row 20 is not liked"


def test_dead_letters_of_all_batches_are_of_one_type(
    spark: SparkSession, sink: Made, tmp_path: Path
) -> None:
    place = str(tmp_path / "dead")
    made = sink("tests.spark.subject_sink.test_failing:refuse", dead_letters=DeadLetterTable(place))

    rows = frame(spark, ROWS).selectExpr(
        "*",
        "if(subject = 'a', null, 'x') as words",
        "if(subject = 'b', 1.5, 12345.5) as money",
        "cast(n as int) as small",
        "map('n', n) as map_",
    )
    made(rows, 0)

    dead = spark.read.parquet(place)
    assert dead.schema["money"].dataType == rows.schema["money"].dataType
    assert {row.n: (row.words, row.small, row.map_) for row in dead.collect()} == {
        row.n: (row.words, row.n, {"n": row.n}) for row in rows.collect()
    }


def refuse(rows: list[Any]) -> None:
    raise Reject("not wanted")


def test_dead_letters_go_to_a_timeline_once(
    spark: SparkSession, sink: Made, log: Path, shared_redis: EmbeddedRedis
) -> None:
    target = DeadLetterTimeline(shared_redis.url, "dead")
    made = sink(noting(fail_at, log, number=20, how="reject"), dead_letters=target, ledger=False)

    made(frame(spark, ROWS), 3)
    made(frame(spark, ROWS), 3)

    timeline = Timeline(shared_redis.url, "dead")
    (lease,) = timeline.consumer("test").lease(10, 5)
    assert [row["n"] for row in lease.body["rows"]] == [10, 20, 30]
    assert lease.body["reason"] == "Reject: rejected: not wanted"
    timeline.close()


UNUSABLE: list[Row] = [(None, at(1), 1), ("a", None, 2), ("a", at(1), 3)]


def test_rows_without_subject_or_time_fail_the_query_or_are_rejected(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException, match=r"it has no (subject|time)"):
        sink()(frame(spark, UNUSABLE), 0)

    made = sink(dead_letters=noting(take, tmp_path / "dead"), query="others")
    made(frame(spark, UNUSABLE), 0)

    assert [one["numbers"] for one in notes(log)][-1] == [3]
    dead = {one["numbers"][0]: one["reason"] for one in notes(tmp_path / "dead")}
    assert dead == {1: "it has no subject", 2: "it has no time"}
    assert made.last is not None
    assert made.last.rejected_rows == 2
