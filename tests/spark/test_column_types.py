"""Every type of column comes back from the state as it was."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dispatcher.spark import event_time_batches, flush_open_batches
from tests.samples import tuples
from tests.spark.streams import Stream

EVERY_TYPE = {
    "flag": "n = 1",
    "tiny": "CAST(-n AS tinyint)",
    "small": "CAST(n AS smallint)",
    "real": "IF(n = 1, float('NaN'), float(0.1))",
    "double_": "IF(n = 1, double('-Infinity'), -0.0D)",
    "money": "CAST('12345678901234567890.123456789' AS decimal(38, 9))",
    "words": "IF(n = 1, 'größer \\u0000 ☃', '')",
    "raw": "X'00FF10'",
    "day": "DATE'0001-01-01' + n",
    # The hour that Berlin's clocks show twice, and the first year.
    "instant": "TIMESTAMP_MICROS(1729990800123456 + n * 3600000000)",
    "first": "TIMESTAMP'0001-01-01 00:00:00 UTC'",
    "shown": "TIMESTAMP_NTZ'2024-03-31 02:30:00.000001'",
    "span": "INTERVAL '3 04:05:06.789' DAY TO SECOND * n",
    "none": "CAST(NULL AS string)",
    "list": "IF(n = 1, array(1, NULL, 3), NULL)",
    "lists": "array(array('a', NULL), NULL, array())",
    "map_": "map('a', n, 'b', NULL)",
    "maps": "map(n, map(DATE'2024-01-01', array(X'00')))",
    "struct_": "IF(n = 1, named_struct('a', n, 'b', named_struct('c', NULL)), NULL)",
    "times": "array(named_struct('at', TIMESTAMP_MICROS(1729990800000000 + n * 3600000000)))",
}


def every_type(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("*", *(f"{value} AS {name}" for name, value in EVERY_TYPE.items()))


def as_text(rows: DataFrame) -> list[Any]:
    """Return the rows as texts, since only these are not changed on the way to the test."""
    return sorted(
        tuple(row)
        for row in rows.selectExpr(
            "n", *(f"to_json(named_struct('it', {name}))" for name in EVERY_TYPE if name != "none")
        ).collect()
    )


@pytest.mark.spark4
def test_e8_every_type_comes_back_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, "s string, k string, t bigint, n int")
    rows: list[dict[str, Any]] = [{"s": "x", "k": f"k{n}", "t": n, "n": n} for n in range(3)]
    stream.write(*([row] for row in rows))

    columns: dict[str, Any] = {"subject": "s", "key": "k", "time": "t"}

    def step(df: DataFrame) -> DataFrame:
        return event_time_batches(every_type(df), **columns, window=50, timeout=100, timers=False)

    assert stream.run(step) == []
    typed = every_type(stream.read())
    out = flush_open_batches(typed, str(stream.checkpoint), **columns)
    again = out.selectExpr("explode(messages) m").select("m.*")
    given = every_type(spark.createDataFrame([tuple(row.values()) for row in rows], stream.schema))
    assert [one.dataType for one in again.schema] == [one.dataType for one in given.schema]
    assert as_text(again) == as_text(given)
    assert again.count() == 3


@pytest.mark.parametrize(
    ("kind", "times", "width", "end"),
    tuples(
        [
            ("tinyint", [100, 110, 120], 50, 127),
            ("double", [0.5, 0.75, 1.0], 1.25, 1.75),
            ("float", [0.5, 0.75, 1.0], 1.25, 1.75),
            ("timestamp", [f"2024-10-27T00:59:5{n}Z" for n in range(3)], 5, None),
            ("timestamp_ntz", [f"2024-10-27T02:59:5{n}" for n in range(3)], 5, None),
        ],
        every=3,
    ),
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_e1_start_and_end_have_the_type_of_the_times(
    spark: SparkSession, tmp_path: Path, kind: str, times: list[Any], width: float, end: Any
) -> None:
    stream = Stream(spark, tmp_path, f"s int, k string, t {kind}, at bigint")
    stream.write(
        [{"s": 7, "k": f"k{n}", "t": time, "at": 1} for n, time in enumerate(times)]
        + [{"s": 7, "k": "z", "t": times[0], "at": 1_000}]
    )
    step = functools.partial(
        event_time_batches,
        subject="s",
        key="k",
        time="t",
        window=width,
        timeout=100,
        arrival="at",
    )
    (batch,) = stream.run(step)
    assert batch.subject == 7
    assert [m.k for m in batch.messages] == ["k0", "k1", "k2"]
    assert batch.start == batch.messages[0].t
    if end is None:
        assert (batch.end - batch.start).total_seconds() == width
    else:
        assert batch.end == end
