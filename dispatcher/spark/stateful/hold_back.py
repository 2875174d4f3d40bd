"""Rows held back as a step of a stream, until those that belong before them had time to come."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructType

from dispatcher.spark.stateful._by_subject import Opening, Parting, counted, stateful
from dispatcher.spark.stateful._columns import (
    arrow_schema,
    check_streaming,
    name_column,
    nullable,
    time_column,
)
from dispatcher.spark.stateful._holding import COUNTS, LATE_COLUMN, SubjectHolding, released
from dispatcher.spark.stateful._options import HoldBackOptions
from limiters._support.signatures import lists, takes
from limiters._support.validation import UNSHOWN, ArgumentError, in_seconds


@lists(HoldBackOptions)
@takes(HoldBackOptions)
def hold_back(df: DataFrame, options: HoldBackOptions) -> DataFrame:
    """Holds each row back for a while in Spark's state, so that rows of its subject that are
    earlier and come within that go out before it, or with it in one micro-batch.

    All columns come out as they were, and one more, `dispatcher_late`: true for a row that is
    earlier than what went out of its subject before; it is not held. A query with this step
    never ends by `availableNow`. ValueError if df lacks a column, or has it of a wrong type.

    >>> ordered = hold_back(readings, subject="device", time="at", delay=30)  # doctest: +SKIP

    All options are keywords:
    """
    check_streaming(df)
    schema = df.schema
    subject = name_column("subject", options.subject, schema)
    times = time_column("time", options.time, schema)
    if LATE_COLUMN in schema.fieldNames():
        requirement = f"have no column {LATE_COLUMN!r}, which this step adds"
        raise ArgumentError("df", UNSHOWN, requirement, "drop it first")
    held = arrow_schema(schema)
    forget = options.forget_after
    step = SubjectHolding(
        schema=held,
        time=times,
        delay_ms=round(in_seconds(options.delay) * 1000),
        forget_after_ms=None if forget is None else round(in_seconds(forget) * 1000),
    )
    refuses = options.invalid == "error"
    parting = Parting(held, subject, [subject, times.name], refuses=refuses)
    held_back = stateful(df, parting, step, COUNTS, "ProcessingTimeTimeout")
    return counted(held_back, options.name, COUNTS).mapInArrow(
        Opening(held, released), released_schema(schema)
    )


def released_schema(schema: StructType) -> StructType:
    """The columns of what comes out."""
    return nullable(schema).add(LATE_COLUMN, BooleanType())
