"""Event-time batches through a stream: the given use cases, random histories, restarts."""

from __future__ import annotations

import functools
import re
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from dispatcher.spark import ByEventTime, event_time_batches, flush_open_batches
from tests.spark import plainly
from tests.spark.sessions import ROCKSDB
from tests.spark.streams import Stream
from tests.unit.builders.test_event_time import UC1, UC2, UC3, UC4, UC5

SCHEMA = "s string, k string, t bigint, at bigint, n int"
COLUMNS: dict[str, Any] = {"subject": "s", "key": "k", "time": "t"}
SEEN = re.compile(r"([a-z])\d+:t(-?\d+)@T(\d+)")

by_arrival = functools.partial(event_time_batches, **COLUMNS, window=50, timeout=100, arrival="at")


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    return Stream(spark, tmp_path, SCHEMA)


def row(s: str, k: str, t: int, at: int = 0, n: int = 0) -> dict[str, Any]:
    return {"s": s, "k": k, "t": t, "at": at, "n": n}


def names(rows: list[Any], subject: str) -> list[list[str]]:
    return [[f"{m.k}:t{m.t}" for m in row.messages] for row in rows if row.subject == subject]


@pytest.mark.parametrize(
    "store",
    [
        pytest.param(None, id="default"),
        pytest.param(ROCKSDB, id="RocksDB", marks=pytest.mark.long),
    ],
)
def test_e6_each_use_case_gives_its_batches(
    spark: SparkSession, stream: Stream, store: str | None
) -> None:
    cases = {f"UC{n}": SEEN.findall(uc) for n, uc in enumerate([UC1, UC2, UC3, UC4, UC5], 1)}
    for place in range(6):
        seen = {case: found[place] for case, found in cases.items() if place < len(found)}
        stream.write([row(case, k, int(t), int(at)) for case, (k, t, at) in seen.items()])
    stream.write([row(case, "z", 90_000, 10_000) for case in cases])
    if store:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", store)
    try:
        out = stream.run(by_arrival)
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    first = ["a:t100", "b:t115", "c:t145"]
    assert names(out, "UC1") == [first, ["d:t155", "e:t165"]]
    assert names(out, "UC2") == [first, ["d:t155", "e:t165"]]
    assert names(out, "UC3") == [["a:t100", "b:t115", "c:t125"], ["a:t135"], ["a:t145"]]
    assert names(out, "UC4") == [first, ["d:t155", "e:t165"]]
    assert names(out, "UC5") == [first, ["a:t155", "b:t200"], ["d:t149"]]
    assert [(batch.start, batch.end) for batch in out if batch.subject == "UC5"] == [
        (100, 150),
        (155, 205),
        (149, 155),
    ]
    assert len({batch.id for batch in out}) == len(out)
    assert stream.count("event_time_batches", "duplicates") == 1
    assert stream.count("event_time_batches", "batches") == len(out)


rows_of_a_subject = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30), st.integers(0, 60)), max_size=4),
    min_size=4,
    max_size=4,
)


@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
@given(histories=st.lists(rows_of_a_subject, min_size=25, max_size=25))
def test_e6_random_histories_give_the_batches_of_a_plain_builder(
    spark: SparkSession, histories: list[list[list[tuple[str, int, int]]]]
) -> None:
    files = [
        [
            row(f"s{subject}", k, t, 20 * number + at, n)
            for subject, history in enumerate(histories)
            for n, (k, t, at) in enumerate(history[number])
        ]
        for number in range(4)
    ]
    files.append([row(f"s{subject}", "z", 10_000, 10_000) for subject in range(len(histories))])
    with tempfile.TemporaryDirectory() as place:
        stream = Stream(spark, Path(place), SCHEMA).write(*files)
        step = functools.partial(event_time_batches, **COLUMNS, window=10, timeout=25, arrival="at")
        out = plainly.as_batches(stream.run(step))
    expected = plainly.batches([(file, None) for file in files], 10, 25, arrival="at")
    assert plainly.by_subject(out) == plainly.by_subject(expected)


def test_k5_by_processing_time_batches_close_without_a_row_as_in_a_plain_builder(
    stream: Stream,
) -> None:
    files = [
        [row("x", "a", 1), row("x", "b", 5), row("y", "a", 3)],
        [row("x", "a", 4), row("x", "b", 5), row("x", "c", 90)],
        [row("y", "b", 4)],
    ]
    stream.write(*files)
    step = functools.partial(event_time_batches, **COLUMNS, window=50, timeout=0.8)

    def closed_without_a_row() -> bool:
        done = stream.finished()
        return any(rows and len(files) <= n and n in done for n, rows in list(stream.seen))

    stream.run_until(step, closed_without_a_row)
    expected = plainly.batches(stream.fed(files), 50, 0.8)
    assert plainly.by_subject(plainly.as_batches(stream.out)) == plainly.by_subject(expected)


def test_e4_by_processing_time_duplicates_are_found_for_the_window_as_well(stream: Stream) -> None:
    files = [[row("x", "a", 1), row("x", "b", 5)], [row("x", "b", 5), row("x", "c", 6)]]
    stream.write(files[0])
    step = functools.partial(event_time_batches, **COLUMNS, window=600, timeout=0.2)

    def closed_for_longer_than_its_timeout() -> bool:
        if not stream.out:
            return False
        times = [now for _, now in stream.fed(files)]
        return times[-1] - times[0] > timedelta(seconds=0.6)

    stream.run_until(step, closed_for_longer_than_its_timeout)
    stream.write(files[1])
    stream.run_until(step, lambda: len(stream.out) == 2)
    assert names(stream.out, "x") == [["a:t1", "b:t5"], ["c:t6"]]


def test_k5_a_replayed_micro_batch_gives_the_same_batches_and_a_restart_loses_none(
    stream: Stream,
) -> None:
    files = [
        [row("x", "a", 1, 1), row("x", "b", 5, 2)],
        [row("x", "c", 3, 150, n) for n in range(3)] + [row("x", "d", 7, 151)],
        [row("x", "e", 9, 300)],
    ]
    stream.write(files[0])
    stream.run(by_arrival)
    assert stream.out == []
    stream.write(files[1])
    stream.crash_at = 1
    with pytest.raises(StreamingQueryException):
        stream.run(by_arrival)
    stream.crash_at = None
    stream.write(files[2])
    stream.run(by_arrival)
    assert [number for number, _ in stream.seen] == [0, 1, 2]
    expected = plainly.batches([(file, None) for file in files], 50, 100, arrival="at")
    assert plainly.as_batches(stream.out) == expected
    assert len(expected) == 2


@pytest.mark.spark4
def test_open_batches_can_be_read_from_the_checkpoint(stream: Stream) -> None:
    stream.write([row("x", "a", 1, 1), row("y", "b", 5, 2)], [row("x", "b", 40, 1, n=7)])
    assert stream.run(by_arrival) == []
    rest = flush_open_batches(stream.read(), str(stream.checkpoint), **COLUMNS).collect()
    assert sorted(plainly.as_batches(rest)) == [
        ("x", 1, 51, [row("x", "a", 1, 1), row("x", "b", 40, 1, n=7)]),
        ("y", 5, 55, [row("y", "b", 5, 2)]),
    ]
    # The query goes on as if the checkpoint had not been read, and gives the same id.
    again = stream.write([row(s, "z", 900, 900) for s in "xy"]).run(by_arrival)
    assert {one.id for one in again} == {one.id for one in rest}


def test_a_slack_of_arrivals_closes_idle_subjects_and_the_query_ends(
    spark: SparkSession, tmp_path: Path
) -> None:
    def at(second: int) -> str:
        return f"2024-10-27T00:{second // 60:02}:{second % 60:02}.000123Z"

    stream = Stream(spark, tmp_path, "s string, k string, t timestamp, at timestamp")
    stream.write(
        [{"s": "x", "k": "a", "t": at(0), "at": at(1)}],
        [{"s": "y", "k": "a", "t": at(100), "at": at(112)}],
        [{"s": "x", "k": "b", "t": at(7), "at": at(9)}],  # late by more than the slack
    )
    step = functools.partial(
        event_time_batches, **COLUMNS, window=50, timeout=100, arrival="at", arrival_slack=10
    )
    out = stream.run(step)
    # The row came late, but before its batch was closed.
    assert [[m.k for m in batch.messages] for batch in out] == [["a", "b"]]
    assert (out[0].end - out[0].start).total_seconds() == 50
    assert out[0].start.microsecond == 123
    # A row that is no message, but has an arrival, moves the time of all subjects.
    stream.write([{"s": None, "k": None, "t": None, "at": at(3000)}])
    out = stream.run(functools.partial(step, invalid="drop"))
    assert [batch.subject for batch in out] == ["y"]


def test_by_event_time_closes_batches_by_event_time(stream: Stream) -> None:
    stream.write(
        [row("x", "a", 100, 105), row("x", "b", 104, 106), row("x", "c", 50, 107)],
        [row("x", "z", 900, 900)],
    )
    rule = ByEventTime(event_jitter=50, delivery_jitter=20, message_leap_limit=0)
    out = stream.run(functools.partial(event_time_batches, **COLUMNS, rule=rule, arrival="at"))
    assert names(out, "x") == [["a:t100", "b:t104"]]
    assert stream.count("event_time_batches", "dropped") == 1


def test_rows_without_a_value_stop_the_query_or_are_counted(stream: Stream) -> None:
    bad = [{"k": "a", "t": 1, "at": 1}, {"s": "x", "t": 1, "at": 1}, {"s": "x", "k": "a", "at": 1}]
    stream.write([*bad, row("x", "a", 1, 1)], [row("x", "z", 900, 900)])
    with pytest.raises(StreamingQueryException, match=r"1 of 4 rows have no usable value .*'s'"):
        stream.run(by_arrival)
    out = stream.run(functools.partial(by_arrival, invalid="drop"))
    assert names(out, "x") == [["a:t1"]]
    assert stream.count("event_time_batches", "invalid") == 3


def test_a_checkpoint_of_other_columns_is_refused(spark: SparkSession, stream: Stream) -> None:
    stream.write([row("x", "a", 1, 1)])
    stream.run(by_arrival)
    stream.write([row("x", "b", 2, 2)])
    stream.schema = f"{SCHEMA}, more string"
    with pytest.raises(StreamingQueryException, match="holds rows of other columns"):
        stream.run(by_arrival)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"subject": "no"},
            r"subject must be a column of the DataFrame, not 'no'; it has s, k, t, at, n",
        ),
        (
            {"key": "f"},
            r"key must be a column that is a text, a whole number.*, not 'f'; it is a double",
        ),
        (
            {"time": "k"},
            r"time must be a column that is a timestamp or a number.*not 'k'; it is a string",
        ),
        ({"time": "d"}, r"time must be .* no decimal, not 'd'; it is a decimal\(10,0\)"),
        ({"arrival": "nope"}, r"arrival must be a column of the DataFrame, not 'nope'"),
        ({"window": -1}, r"window must be zero or more seconds, not -1"),
        ({"timeout": None}, r"timeout must be given, and so must window, or rule, not None"),
        (
            {"arrival_slack": 5},
            r"arrival_slack must go with an arrival column of timestamps; there is none",
        ),
        ({"invalid": "ignore"}, r"invalid must be 'error' or 'drop', not 'ignore'"),
        ({"rule": ByEventTime(1, 1, 1)}, r"rule must stand in place of window, timeout"),
        (
            {"rule": ByEventTime(1, 1, 1), "window": None, "timeout": None},
            r"time must be a column of the same type as the processing time.*it is a int64",
        ),
    ],
    ids=str,
)
def test_impossible_options_are_refused_before_the_query_starts(
    spark: SparkSession, stream: Stream, change: dict[str, Any], message: str
) -> None:
    stream.schema = f"{SCHEMA}, f double, d decimal(10, 0)"
    options: dict[str, Any] = {**COLUMNS, "window": 50, "timeout": 100, **change}
    with pytest.raises(ValueError, match=message):
        event_time_batches(stream.read(), **options)


@pytest.mark.spark4
def test_texts_that_differ_but_are_equal_cannot_be_subjects(
    spark: SparkSession, stream: Stream
) -> None:
    rows = stream.read().selectExpr("s collate utf8_lcase as s", "k", "t")
    with pytest.raises(ValueError, match="in which texts that differ are the same"):
        event_time_batches(rows, subject="s", key="k", time="t", window=50, timeout=100)


def test_a_frame_that_is_no_stream_or_has_impossible_columns_is_refused(
    spark: SparkSession,
) -> None:
    made: Any = by_arrival

    with pytest.raises(ValueError, match="df must be a streaming DataFrame"):
        made(spark.createDataFrame([], SCHEMA))
    rows = spark.readStream.format("rate").load()
    with pytest.raises(
        ValueError, match=r"column 'i' must be .* kept in the state, not 'interval month'"
    ):
        made(rows.selectExpr("'x' s", "'a' k", "1L t", "1L at", "interval '1' month i"))
    with pytest.raises(ValueError, match="df must have one column named 's', not several"):
        made(rows.selectExpr("'x' s", "'y' s", "'a' k", "1L t", "1L at"))
