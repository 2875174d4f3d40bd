"""Rows for a SubjectSink, and the rows that its handler has received."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from dispatcher.spark import SubjectSink
from tests.spark.handlers import notes

Row = tuple[str | None, datetime | None, int]
Made = Callable[..., SubjectSink]


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame(rows, "subject string, at timestamp, n long")


ROWS: list[Row] = [
    (subject, at(second), 10 * second + place)
    for second in (3, 1, 2)
    for place, subject in enumerate(["a", "b", "c"])
]
LATER: list[Row] = [("a", at(2), 1), ("a", at(3), 2), ("a", at(9), 3), ("d", at(1), 4)]


def taken(log: Path, subject: str) -> list[list[int]]:
    return [one["numbers"] for one in notes(log) if one["subject"] == subject]
