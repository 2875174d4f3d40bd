"""Stateful steps in Spark, compared with a bare applyInPandasWithState that only counts.

The same files of 100,000 rows, one a micro-batch, through both in turns; a batch holds ten rows.
Times are what Spark reports for the micro-batches after the first of each run; the quickest of
either way counts, since other programs on the machine only add time.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState

from benchmarks.figures import Figure
from benchmarks.spark_session import spark_session
from dispatcher.spark import event_time_batches

ROWS = 100_000
FILES = 4
ROUNDS = 3
SCHEMA = "subject string, metric int, at bigint, arrival bigint, value double"


def run() -> Iterator[Figure]:
    """Measure many small subjects, and few large ones."""
    with spark_session() as spark:
        for subjects in (5_000, 100):
            yield _figure(spark, subjects)


def _figure(spark: SparkSession, subjects: int) -> Figure:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        _write(spark, place / "rows", subjects)
        bare: list[float] = []
        batches: list[float] = []
        for turn in range(ROUNDS):
            bare += _seconds(_counted(_rows(spark, place)), place / f"bare {turn}")
            batches += _seconds(_batches(_rows(spark, place)), place / f"batches {turn}")
    return Figure(
        f"event_time_batches, {subjects:,} subjects",
        min(bare) / min(batches),
        "x bare counting",
        at_least=0.6,
        note=f"{ROWS / min(batches):,.0f} rows/s",
    )


def _write(spark: SparkSession, place: Path, subjects: int) -> None:
    """Write each subject's rows of a file: ten metrics at ten times, repeatedly."""
    place.mkdir()
    each = ROWS // subjects
    for number in range(FILES):
        turn = np.tile(np.arange(each), subjects)
        at = number * each + turn
        frame = pd.DataFrame(
            {
                "subject": np.repeat([f"subject {name}" for name in range(subjects)], each),
                "metric": (at % 10).astype("int32"),
                "at": at,
                "arrival": at + 3,
                "value": at / 7,
            }
        )
        path = place / f"{number}.parquet"
        frame.sample(frac=1, random_state=number).to_parquet(path)
        os.utime(path, (number, number))


def _rows(spark: SparkSession, place: Path) -> DataFrame:
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return files.parquet(str(place / "rows"))


def _batches(rows: DataFrame) -> DataFrame:
    return event_time_batches(
        rows, subject="subject", key="metric", time="at", window=9, timeout=12, arrival="arrival"
    )


def _counted(rows: DataFrame) -> DataFrame:
    return rows.groupBy("subject").applyInPandasWithState(
        _count, "subject string, count bigint", "count bigint", "append", "NoTimeout"
    )


def _count(
    subject: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    count = (state.get[0] if state.exists else 0) + sum(map(len, frames))
    state.update((count,))
    yield pd.DataFrame({"subject": [subject[0]], "count": [count]})


def _seconds(rows: DataFrame, checkpoint: Path) -> list[float]:
    """Return the seconds of each micro-batch."""
    query = (
        rows.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    done = [one for one in query.recentProgress if one["numInputRows"]]
    if [one["numInputRows"] for one in done] != [ROWS] * FILES:
        raise RuntimeError("a micro-batch did not hold one file")
    return [one["durationMs"]["addBatch"] / 1000 for one in done[1:]]
