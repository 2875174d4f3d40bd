"""Law K8 with Spark: batches of several subjects, the same in every replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions
from redis import Redis

from limiters.embedded import EmbeddedRedis
from tests.samples import tuples
from tests.spark.handlers import fail_at, notes, noting, take
from tests.spark.subject_sink.orders import Made

SUBJECTS, EACH, MOST = 400, 3, 20


def many(spark: SparkSession, subjects: int = SUBJECTS) -> DataFrame:
    """Return some rows of each of many subjects. `n` is a number of its own."""
    return spark.range(subjects * EACH).selectExpr(
        f"concat('s', id % {subjects}) as subject", "timestamp_seconds(id) as at", "id as n"
    )


def later(spark: SparkSession) -> DataFrame:
    """Return the same rows a day later."""
    return many(spark).withColumn("at", functions.expr("at + interval 1 day"))


def packs(log: Path) -> dict[str, list[int]]:
    """Return the rows of each call, by its key."""
    found: dict[str, list[int]] = {}
    for one in notes(log):
        found.setdefault(one["pack"], []).extend(one["numbers"])
    return {key: sorted(numbers) for key, numbers in found.items()}


def test_k8_many_subjects_with_few_rows_make_few_calls(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    made = sink(max_batch_size=100)
    made(many(spark), 0)

    assert made.last is not None
    assert made.last.sent_rows == SUBJECTS * EACH
    assert made.last.batches == len(packs(log)) <= 1.1 * SUBJECTS * EACH / 100 + 2
    for one in notes(log):
        assert one["numbers"] == sorted(one["numbers"])
        assert len(one["numbers"]) == EACH, "each subject is whole in one batch"


def test_k8_packs_do_not_depend_on_how_spark_divides_the_rows(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    size = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(size)
    seen: list[dict[str, list[int]]] = []
    try:
        for turn, records in enumerate((10_000, 1, 10)):
            spark.conf.set(size, str(records))
            one = log.with_name(f"log-{turn}")
            rows = many(spark).repartition(turn + 1).orderBy(functions.rand(turn))
            sink(noting(take, one), ledger=False, max_batch_size=MOST)(rows, 0)
            seen.append(packs(one))
    finally:
        spark.conf.set(size, str(before))

    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) > 2 * SUBJECTS * EACH / MOST / 2


@pytest.mark.parametrize(("parts", "then"), tuples([(1, 4), (3, 1)], every=2))
def test_k3_k8_a_replay_with_other_partitions_and_sizes_has_the_same_packs(
    spark: SparkSession, sink: Made, log: Path, parts: int, then: int
) -> None:
    whole = log.with_name("whole")
    sink(noting(take, whole), partitions=parts, max_batch_size=MOST, ledger=False)(many(spark), 5)
    first = sink(
        noting(fail_at, log, number=217), partitions=parts, max_batch_size=MOST, concurrency=1
    )
    with pytest.raises(PySparkException, match="row 217 is not liked"):
        first(many(spark), 5)
    assert 0 < len(notes(log)) < SUBJECTS, "it was stopped half way"

    again = sink(partitions=then, max_batch_size=2 * MOST)
    again(many(spark).orderBy(functions.rand(1)), 5)

    numbers = sorted(n for one in notes(log) for n in one["numbers"])
    assert numbers == list(range(SUBJECTS * EACH)), "no row is lost or sent twice"
    assert sorted(packs(log).values()) == sorted(packs(whole).values())

    again(later(spark), 6)
    assert again.last is not None
    assert again.last.batches <= 1.1 * SUBJECTS * EACH / (2 * MOST) + then, (
        "it uses its own division from then on"
    )


def test_k3_k8_a_micro_batch_begun_by_an_older_version_is_finished_by_subjects(
    spark: SparkSession,
    sink: Made,
    log: Path,
    shared_redis: EmbeddedRedis,
    connect: Callable[[str], Redis],
) -> None:
    old = sink(noting(fail_at, log, number=217), pack=False, concurrency=1)
    with pytest.raises(PySparkException, match="row 217 is not liked"):
        old(many(spark), 5)
    sent = len(notes(log))
    (stream,) = connect(shared_redis.url).keys("dispatcher:spark:v1:{orders}:stream:*")
    connect(shared_redis.url).hdel(stream, "division")  # an older version had no such field

    new = sink(partitions=3)
    new(many(spark), 5)

    assert 0 < sent < SUBJECTS
    numbers = sorted(n for one in notes(log) for n in one["numbers"])
    assert numbers == list(range(SUBJECTS * EACH))
    assert all(one["pack"] == one["key"] for one in notes(log)), (
        "the keys are those of the older version"
    )

    new(later(spark), 6)
    assert new.last is not None
    assert new.last.batches <= 1.1 * SUBJECTS * EACH / 500 + 3


def test_k8_a_micro_batch_begun_with_packs_can_be_finished_without_them(
    spark: SparkSession, sink: Made, log: Path
) -> None:
    with pytest.raises(PySparkException, match="row 217 is not liked"):
        sink(noting(fail_at, log, number=217), max_batch_size=MOST, concurrency=1)(many(spark), 5)

    sink(pack=False)(many(spark), 5)

    numbers = sorted(n for one in notes(log) for n in one["numbers"])
    assert numbers == list(range(SUBJECTS * EACH))


def test_k8_only_the_subject_that_fails_becomes_dead_letters(
    spark: SparkSession, sink: Made, log: Path, tmp_path: Path
) -> None:
    dead = tmp_path / "dead"
    made = sink(noting(fail_at, log, number=217), dead_letters=noting(take, dead))
    made(many(spark), 0)

    assert sorted(n for one in notes(dead) for n in one["numbers"]) == [217, 617, 1017]
    assert {one["subject"] for one in notes(dead)} == {"s217"}
    assert made.last is not None
    assert (made.last.sent_rows, made.last.rejected_rows) == (SUBJECTS * EACH - 3, 3)


def test_k8_rows_are_late_by_subject(spark: SparkSession, sink: Made, log: Path) -> None:
    made = sink(max_batch_size=50)
    made(many(spark).where(f"n >= {2 * SUBJECTS}"), 0)
    rest = many(spark, SUBJECTS + 100).where("ascii(substr(subject, 2)) % 2 = 0")
    made(rest, 1)

    noted = [one for one in notes(log) if one["batch"] == 1]
    before = {f"s{number}" for number in range(SUBJECTS)}
    earliest = 2 * SUBJECTS
    for one in noted:
        reached = earliest + int(one["subject"][1:])
        assert one["late"] == (one["subject"] in before and max(one["numbers"]) < reached)
    assert {one["late"] for one in noted} == {True, False}
