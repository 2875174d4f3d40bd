"""A step of a stream that holds rows back until earlier rows have had time to come."""

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
    """Hold each row back in Spark's state for `delay`. Earlier rows of its subject that come within
    that time are released before it, or with it in one micro-batch.

    The result has the same columns and one more, `dispatcher_late`, which is true for a row that is
    earlier than a row of its subject that was released before; such a row is not held. A query with
    this step never ends by `availableNow`. ValueError if df lacks a column, or if a column has a
    wrong type.

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
    """Return the schema of released rows."""
    return nullable(schema).add(LATE_COLUMN, BooleanType())
