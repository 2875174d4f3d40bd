"""The targets of dead letters, without Spark."""

from __future__ import annotations

import math
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dispatcher.spark import Context, DeadLetterTable, DeadLetterTimeline
from dispatcher.timeline import Timeline
from limiters.embedded import EmbeddedRedis

CONTEXT = Context("orders", 7, "a", 1, 2, "key", 0, reason="not wanted")
ONE = pa.RecordBatch.from_pylist([{"n": 1}])


@pytest.mark.parametrize("name", ["dead", "dead letters", "dead#1", "dead%20letters", "dead?"])
def test_a_table_is_in_the_folder_that_was_named(tmp_path: Path, name: str) -> None:
    DeadLetterTable(str(tmp_path / name)).take(ONE, CONTEXT)

    [row] = pq.read_table(tmp_path / name / "key.parquet").to_pylist()
    assert row == {"n": 1, "dead_reason": "not wanted", "dead_query": "orders", "dead_batch_id": 7}


def test_a_table_may_be_named_by_a_uri(tmp_path: Path) -> None:
    DeadLetterTable(f"{tmp_path.as_uri()}/dead%20letters").take(
        pa.RecordBatch.from_pylist([{"n": 1}]), CONTEXT
    )

    assert (tmp_path / "dead letters" / "key.parquet").exists()


@pytest.mark.parametrize("path", ["dead", "", None, "./dead"])
def test_a_path_that_differs_on_each_executor_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path must be a URI or an absolute path"):
        DeadLetterTable(path)


@pytest.mark.parametrize("path", ["s3a://bucket/dead", "dbfs://dead", "://dead"])
def test_a_scheme_that_pyarrow_cannot_use_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"path must begin with one of s3://.*use s3://"):
        DeadLetterTable(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("localhost:6379", "dead"), "url must begin with one of redis://"),
        ((6379, "dead"), "url must be a URL that executors can be given, .*not 6379"),
        (("redis://localhost", ""), "topic must be a text"),
        (("redis://localhost", "dead", "{x}"), "prefix must be without braces"),
    ],
)
def test_an_impossible_timeline_is_refused_immediately(
    arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        DeadLetterTimeline(*arguments)


def test_a_timeline_stores_values_that_json_lacks_as_texts(shared_redis: EmbeddedRedis) -> None:
    kind = pa.map_(pa.date32(), pa.list_(pa.int64()))
    records = pa.RecordBatch.from_pydict(
        {
            "at": [date(2026, 5, 1)],
            "bytes": [b"x"],
            "level": [math.nan],
            "map": pa.array([[(date(2026, 5, 1), [1])]], kind),
        }
    )
    DeadLetterTimeline(shared_redis.url, "dead").take(records, CONTEXT)

    with closing(Timeline(shared_redis.url, "dead")) as timeline:
        [snapshot] = timeline.operator().peek(10)
    assert snapshot.body["rows"] == [
        {"at": "2026-05-01", "bytes": "b'x'", "level": "nan", "map": {"2026-05-01": [1]}}
    ]
    assert snapshot.body["reason"] == "not wanted"
