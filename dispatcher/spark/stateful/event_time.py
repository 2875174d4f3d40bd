"""A step of a stream that builds batches by event time, and keeps open batches in Spark's state."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from dispatcher.spark.stateful._by_subject import Opening, Parting, counted, stateful
from dispatcher.spark.stateful._closing import COUNTS, Batches, SubjectClosing
from dispatcher.spark.stateful._columns import (
    TimeColumn,
    arrow_schema,
    check_streaming,
    name_column,
    nullable,
    time_column,
)
from dispatcher.spark.stateful._options import EventTimeOptions
from dispatcher.spark.stateful._rules import rule_of
from limiters._support.signatures import lists, takes
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, in_seconds

_TIMEOUTS = {
    "processing": "ProcessingTimeTimeout",
    "watermark": "EventTimeTimeout",
    None: "NoTimeout",
}


@lists(EventTimeOptions)
@takes(EventTimeOptions)
def event_time_batches(df: DataFrame, options: EventTimeOptions) -> DataFrame:
    """Gather the rows of each subject into batches by an `EventTimeBuilder`, whose open batches are
    kept in Spark's state.

    The rows that come out are the closed batches: `subject`, `start`, `end`, `messages` (an array
    of the rows of df, in order of time) and `id`, which is the same in every replay. ValueError if
    df lacks a column, or if a column has a type that cannot be used.

    >>> batches = event_time_batches(
    ...     readings, subject="device", key="metric", time="at", window=50, timeout=100
    ... )  # doctest: +SKIP

    All options are keywords:
    """
    check_streaming(df)
    schema, arrival = df.schema, options.arrival
    subject = name_column("subject", options.subject, schema)
    key = name_column("key", options.key, schema)
    times = time_column("time", options.time, schema)
    arrivals = None if arrival is None else time_column("arrival", arrival, schema)
    needed = [subject, key, times.name, *([arrivals.name] if arrivals else [])]
    held = arrow_schema(schema)
    slack_ms = _slack_ms(arrivals, options.arrival_slack)
    timer = _timer(options)
    step = SubjectClosing(
        schema=held,
        subject=subject,
        key=key,
        time=times,
        arrival=arrivals,
        rule=rule_of(times, arrivals, options),
        timer=timer,
    )
    parting = Parting(
        held,
        subject,
        needed,
        refuses=options.invalid == "error",
        clock=arrival if timer == "watermark" else None,
        time=times,
    )
    closed = stateful(df, parting, step, COUNTS, _TIMEOUTS[timer], slack_ms)
    return counted(closed, options.name, COUNTS).mapInArrow(
        Opening(held, Batches(subject, times)), batches_schema(schema, subject, times)
    )


def _timer(options: EventTimeOptions) -> Literal["processing", "watermark"] | None:
    if options.arrival is None:
        return "processing" if options.timers else None
    return None if options.arrival_slack is None else "watermark"


def _slack_ms(arrival: TimeColumn | None, slack: Seconds | None) -> int | None:
    if slack is None:
        return None
    if arrival is None or not arrival.is_clock:
        there = "there is none" if arrival is None else f"{arrival.name!r} holds {arrival.type}"
        requirement = "go with an arrival column of timestamps"
        raise ArgumentError("arrival_slack", UNSHOWN, requirement, there)
    return round(in_seconds(slack) * 1000)


def batches_schema(schema: StructType, subject: str, time: TimeColumn) -> StructType:
    """Return the schema of the batches."""
    at = schema[time.name].dataType
    return StructType(
        [
            StructField("subject", schema[subject].dataType),
            StructField("start", at),
            StructField("end", at),
            StructField("messages", ArrayType(nullable(schema), containsNull=False)),
            StructField("id", StringType()),
        ]
    )
