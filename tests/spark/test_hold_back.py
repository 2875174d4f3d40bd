"""Rows held back through a stream, compared with a plain version of the same rule."""

from __future__ import annotations

import functools
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from dispatcher.spark import LATE_COLUMN, flush_held_rows, hold_back
from tests.spark.streams import Stream

SCHEMA = "s string, t bigint, n int"
COLUMNS: dict[str, Any] = {"subject": "s", "time": "t"}


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path, SCHEMA)


def row(s: str, t: int, n: int = 0) -> dict[str, Any]:
    return {"s": s, "t": t, "n": n}


def plainly(
    micro_batches: list[tuple[list[dict[str, Any]], datetime]], delay: timedelta
) -> list[list[tuple[str, int, int, bool]]]:
    """Return the rows that are sent in each micro-batch."""
    held: list[tuple[datetime, dict[str, Any]]] = []
    marks: dict[str, int] = {}
    out = []
    for rows, now in micro_batches:
        late = [row for row in rows if row["t"] < marks.get(row["s"], -1)]
        held += [(now + delay, row) for row in rows if row not in late]
        for due, one in held:
            if due <= now:
                marks[one["s"]] = max(one["t"], marks.get(one["s"], -1))
        gone = [(due, one) for due, one in held if one["t"] <= marks.get(one["s"], -1)]
        held = [one for one in held if one not in gone]
        flagged = [(one, True) for one in late] + [(one, False) for _, one in gone]
        out.append(sorted((one["s"], one["t"], one["n"], flag) for one, flag in flagged))
    return out


def test_k1_rows_wait_for_earlier_ones_and_come_out_if_no_more_rows_follow(stream: Stream) -> None:
    files = [
        [row("x", 10), row("x", 30), row("y", 5)],
        [row("x", 20, 1)],
        [row("x", 40, 2), row("y", 4, 2)],
    ]
    stream.write(*files)
    step = functools.partial(hold_back, **COLUMNS, delay=3)
    stream.run_until(step, lambda: len(stream.out) == 6)
    # The times of rows that came out are stored for as long as the checkpoint exists, also after a
    # restart.
    files.append([row("x", 35, 3), row("x", 40, 3), row("y", 3, 3)])
    stream.write(files[3])
    stream.run_until(step, lambda: len(stream.out) == 9)
    seen = dict(stream.seen)
    got = [
        sorted((one.s, one.t, one.n, one[LATE_COLUMN]) for one in seen.get(number, []))
        for number in stream.finished()
    ]
    assert got == plainly(stream.fed(files), timedelta(seconds=3))
    # Which other rows are late depends on Spark's speed; the plain rule has calculated that.
    late = {(one.s, one.t) for one in stream.out if one[LATE_COLUMN]}
    assert {("x", 35), ("y", 3)} <= late


def test_k3_a_replay_gives_the_same_rows(stream: Stream) -> None:
    stream.write([row("x", 10), row("x", 20)])
    step = functools.partial(hold_back, **COLUMNS, delay=0)
    stream.crash_at = 0
    with pytest.raises(StreamingQueryException):
        stream.start(step, processingTime="50 milliseconds").awaitTermination()
    processing_time = _processing_time(stream, 0)
    stream.crash_at = None
    stream.run_until(step, lambda: len(stream.out) == 2)
    assert _processing_time(stream, 0) == processing_time
    assert stream.seen[0][0] == 0
    assert [one.t for one in stream.seen[0][1]] == [10, 20]


@pytest.mark.spark4
def test_held_rows_can_be_read_from_the_checkpoint(stream: Stream) -> None:
    stream.write([row("x", 20), row("y", 5), row("x", 10)])
    step = functools.partial(hold_back, **COLUMNS, delay=1_000)
    stream.run_until(step, lambda: bool(stream.finished()))
    rest = flush_held_rows(stream.read(), str(stream.checkpoint), time="t").collect()
    assert sorted(tuple(one) for one in rest) == [
        ("x", 10, 0, False),
        ("x", 20, 0, False),
        ("y", 5, 0, False),
    ]


def test_a_subject_without_new_rows_is_forgotten(stream: Stream) -> None:
    stream.write([row("x", 10)])
    step = functools.partial(hold_back, **COLUMNS, delay=0, forget_after=0.2)

    def forgotten() -> bool:
        progress = stream.query and stream.query.lastProgress
        return bool(progress and stream.out and progress["stateOperators"][0]["numRowsTotal"] == 0)

    stream.run_until(step, forgotten)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"subject": "no"}, "subject must be a column of the DataFrame, not 'no'; it has s, t, n"),
        ({"time": "s"}, "time must be a column that is a timestamp or a number.*; it is a string"),
        ({"delay": -1}, "delay must be zero or more seconds, not -1"),
        ({"forget_after": 0}, "forget_after must be more than zero seconds, not 0"),
    ],
    ids=str,
)
def test_impossible_options_are_refused_before_the_query_starts(
    stream: Stream, change: dict[str, Any], message: str
) -> None:
    options: dict[str, Any] = {**COLUMNS, "delay": 5, **change}
    with pytest.raises(ValueError, match=message):
        hold_back(stream.read(), **options)


def test_the_name_of_the_column_that_it_adds_must_be_free(stream: Stream) -> None:
    rows = stream.read().selectExpr("*", f"true AS {LATE_COLUMN}")
    with pytest.raises(ValueError, match="which this step adds"):
        hold_back(rows, subject="s", time="t", delay=5)


def _processing_time(stream: Stream, number: int) -> int:
    offsets = (stream.checkpoint / "offsets" / str(number)).read_text().splitlines()
    at: int = json.loads(offsets[1])["batchTimestampMs"]
    return at
