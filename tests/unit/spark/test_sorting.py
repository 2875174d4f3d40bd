"""The rows of a task are sorted in the same way as by Spark."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.spark._rows.sorting import sorted_batches

some_rows = st.lists(
    st.tuples(st.none() | st.sampled_from("abc"), st.none() | st.floats(0, 3) | st.just(math.nan)),
    max_size=40,
)


def batches_of(rows: list[tuple[Any, Any]], size: int, kind: pa.DataType) -> list[pa.RecordBatch]:
    table = pa.table(
        {
            "subject": pa.array([subject for subject, _ in rows], pa.string()),
            "at": pa.array([time for _, time in rows], kind),
            "n": list(range(len(rows))),
        }
    )
    batches: list[pa.RecordBatch] = table.to_batches(size)
    return batches


def by_nulls(value: Any) -> tuple[bool, bool, Any]:
    """Return a sort key: null comes first, and NaN last."""
    no_number = isinstance(value, float) and math.isnan(value)
    return value is not None, no_number, 0 if value is None or no_number else value


@pytest.mark.parametrize("subject", ["subject", None])
@given(some_rows, st.integers(1, 9))
def test_k1_rows_are_in_order_of_subject_and_time(
    subject: str | None, rows: list[tuple[Any, Any]], size: int
) -> None:
    found = sorted_batches(batches_of(rows, size, pa.float64()), subject, "at")
    numbers = [n for batch in found for n in batch.column("n").to_pylist()]

    def order(n: int) -> Any:
        whose, time = rows[n]
        return (by_nulls(whose)[::2] if subject else ()), by_nulls(time)

    assert numbers == sorted(range(len(rows)), key=order)


def test_no_rows_are_no_batches() -> None:
    assert list(sorted_batches([], "subject", "at")) == []
    assert list(sorted_batches(batches_of([], 5, pa.int64()), "subject", "at")) == []
