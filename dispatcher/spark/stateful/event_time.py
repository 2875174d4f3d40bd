"""Batches by event time as a step of a stream, kept open in Spark's own state."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from dispatcher.spark.stateful._by_subject import Opening, Parting, counted, stateful
from dispatcher.spark.stateful._closing import COUNTS, Batches, SubjectClosing
from dispatcher.spark.stateful._columns import (
    Invalid,
    TimeColumn,
    arrow_schema,
    checked,
    name_column,
    nullable,
    time_column,
)
from dispatcher.spark.stateful._rules import ByEventTime, rule_of
from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, seconds

_TIMEOUTS = {
    "processing": "ProcessingTimeTimeout",
    "watermark": "EventTimeTimeout",
    None: "NoTimeout",
}


def event_time_batches(
    df: DataFrame,
    *,
    subject: str,
    key: str,
    time: str,
    window: Seconds | None = None,
    timeout: Seconds | None = None,
    rule: ByEventTime | None = None,
    arrival: str | None = None,
    arrival_slack: Seconds | None = None,
    duplicate_memory: Seconds | None = None,
    invalid: Invalid = "error",
    timers: bool = True,
    name: str = "event_time_batches",
) -> DataFrame:
    """Gathers the rows of each subject into batches: an `EventTimeBuilder` for each, whose open
    batches live in Spark's state.

    * `subject`, `key`, `time`: columns. For `time` a timestamp, or numbers that can be ordered.
    * `window`, `timeout`: as for EventTimeBuilder: seconds or a timedelta; where a column holds
      numbers, in their unit. Or `rule=ByEventTime(...)` in place of both.
    * `arrival`: the column of arrivals. Without one, the rows of a micro-batch arrive together,
      when it begins, and are taken in order of (time, key).
    * `arrival_slack`: how far the arrivals of one subject may be behind those of another. With
      it, batches close when the latest arrival of any subject, less this, has passed their time;
      without, only when the subject's own next row comes.
    * `duplicate_memory`: how long after its batch closed a row is still recognized when it is
      delivered again: in seconds, or in the unit of `arrival` where that holds numbers. By
      default the sum of `window` and `timeout` as you give them; set it where `time` is counted
      in another unit than that, such as milliseconds.
    * `invalid`: what a null or NaN in one of these columns does: "error", or "drop".
    * `timers`: without `arrival`, whether batches close when no row comes. A query with timers
      never ends by `availableNow`.
    * `name`: of the counts in each progress report's observed metrics: `batches`, `messages`,
      `duplicates`, `dropped`, `invalid`.

    The rows that come out are the closed batches: `subject`, `start`, `end`, `messages` (an
    array of the rows of df, in order of time) and `id`, which is the same in every replay.
    ValueError if df lacks a column, or has it of a type that cannot serve.

    >>> batches = event_time_batches(
    ...     readings, subject="device", key="metric", time="at", window=50, timeout=100
    ... )  # doctest: +SKIP
    """
    checked(df, invalid)
    schema = df.schema
    subject_name = name_column("subject", subject, schema)
    key_name = name_column("key", key, schema)
    times = time_column("time", time, schema)
    arrivals = None if arrival is None else time_column("arrival", arrival, schema)
    needed = [subject_name, key_name, times.name, *([arrivals.name] if arrivals else [])]
    held = arrow_schema(schema)
    slack_ms = _slack_ms(arrivals, arrival_slack)
    timer = _timer(arrivals, arrival_slack, timers)
    step = SubjectClosing(
        schema=held,
        subject=subject_name,
        key=key_name,
        time=times,
        arrival=arrivals,
        rule=rule_of(times, arrivals, window, timeout, rule, duplicate_memory),
        timer=timer,
    )
    parting = Parting(
        held,
        subject_name,
        needed,
        refuses=invalid == "error",
        clock=arrival if timer == "watermark" else None,
    )
    closed = stateful(df, parting, step, COUNTS, _TIMEOUTS[timer], slack_ms)
    return counted(closed, name, COUNTS).mapInArrow(
        Opening(held, Batches(subject_name, times)), batches_schema(schema, subject_name, times)
    )


def _timer(
    arrival: TimeColumn | None, arrival_slack: Seconds | None, timers: bool
) -> Literal["processing", "watermark"] | None:
    if arrival is None:
        return "processing" if timers else None
    return None if arrival_slack is None else "watermark"


def _slack_ms(arrival: TimeColumn | None, slack: Seconds | None) -> int | None:
    if slack is None:
        return None
    if arrival is None or not arrival.is_clock:
        there = "there is none" if arrival is None else f"{arrival.name!r} holds {arrival.type}"
        requirement = "go with an arrival column of timestamps"
        raise ArgumentError("arrival_slack", UNSHOWN, requirement, there)
    return round(seconds("arrival_slack", slack, zero=True) * 1000)


def batches_schema(schema: StructType, subject: str, time: TimeColumn) -> StructType:
    """The columns of what comes out."""
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
