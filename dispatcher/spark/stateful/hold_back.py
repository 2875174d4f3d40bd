"""Rows held back as a step of a stream, until those that belong before them had time to come."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructType

from dispatcher.spark.stateful._by_subject import Opening, Parting, counted, stateful
from dispatcher.spark.stateful._columns import (
    Invalid,
    arrow_schema,
    checked,
    name_column,
    nullable,
    time_column,
)
from dispatcher.spark.stateful._holding import COUNTS, LATE_COLUMN, SubjectHolding, released
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, optional_seconds, seconds


def hold_back(
    df: DataFrame,
    *,
    subject: str,
    time: str,
    delay: Seconds,
    forget_after: Seconds | None = None,
    invalid: Invalid = "error",
    name: str = "hold_back",
) -> DataFrame:
    """Holds each row back for `delay` in Spark's state, so that rows of its subject that are
    earlier and come within that go out before it, or with it in one micro-batch.

    * `subject`, `time`: columns. For `time` a timestamp, or numbers that can be ordered.
    * `delay`: seconds or a timedelta, of processing time: so rows come out on time when none
      follow, and however old what a back-fill reads is, it waits no longer.
    * `forget_after`: for how long the last time that went out is known of a subject of which
      nothing comes. By default for as long as the checkpoint lives: some 100 bytes a subject.
    * `invalid`: what a null or NaN in one of these columns does: "error", or "drop".
    * `name`: of the counts in each progress report's observed metrics: `released`, `late`,
      `invalid`.

    All columns come out as they were, and one more, `dispatcher_late`: true for a row that is
    earlier than what went out of its subject before; it is not held. A query with this step
    never ends by `availableNow`. ValueError if df lacks a column, or has it of a wrong type.

    >>> ordered = hold_back(readings, subject="device", time="at", delay=30)  # doctest: +SKIP
    """
    checked(df, invalid)
    schema = df.schema
    subject_name = name_column("subject", subject, schema)
    times = time_column("time", time, schema)
    if LATE_COLUMN in schema.fieldNames():
        requirement = f"have no column {LATE_COLUMN!r}, which this step adds"
        raise ArgumentError("df", UNSHOWN, requirement, "drop it first")
    held = arrow_schema(schema)
    forget = optional_seconds("forget_after", forget_after)
    step = SubjectHolding(
        schema=held,
        time=times,
        delay_ms=round(seconds("delay", delay, zero=True) * 1000),
        forget_after_ms=None if forget is None else round(forget * 1000),
    )
    parting = Parting(held, subject_name, [subject_name, times.name], refuses=invalid == "error")
    held_back = stateful(df, parting, step, COUNTS, "ProcessingTimeTimeout")
    return counted(held_back, name, COUNTS).mapInArrow(
        Opening(held, released), released_schema(schema)
    )


def released_schema(schema: StructType) -> StructType:
    """The columns of what comes out."""
    return nullable(schema).add(LATE_COLUMN, BooleanType())
