"""Batches by event time as a step of a stream, kept open in Spark's own state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, functions
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from dispatcher.spark.by_subject import INVALID, ROWS, SUBJECT, Opening, Parting
from dispatcher.spark.closing import COUNTS, Batches, Closing, Rule
from dispatcher.spark.columns import (
    MICROSECONDS,
    TimeColumn,
    arrow_schema,
    name_column,
    time_column,
)
from limiters.arguments import Seconds, seconds

Invalid = Literal["error", "drop"]
_PARTED = f"{SUBJECT} {{}}, {ROWS} BINARY, {INVALID} BIGINT"
_CLOSED = ", ".join([f"{ROWS} BINARY", *(f"{count} BIGINT" for count in COUNTS)])


@dataclass(frozen=True)
class ByEventTime:
    """The other closing rule: see `EventTimeBuilder.by_event_time`."""

    event_jitter: Seconds
    delivery_jitter: Seconds
    message_leap_limit: Seconds


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
    if not df.isStreaming:
        raise ValueError(
            "df must be a streaming DataFrame (spark.readStream); for rows that are all there, "
            "give each subject's to an EventTimeBuilder in applyInPandas"
        )
    schema = df.schema
    subject_name = name_column("subject", subject, schema)
    key_name = name_column("key", key, schema)
    times = time_column("time", time, schema)
    arrivals = None if arrival is None else time_column("arrival", arrival, schema)
    if invalid not in ("error", "drop"):
        raise ValueError(f"invalid must be 'error' or 'drop', not {invalid!r}")
    needed = [subject_name, key_name, times.name, *([arrivals.name] if arrivals else [])]
    held = arrow_schema(schema)
    if arrival_slack is not None:
        df = _watermarked(df, arrivals, arrival_slack)
    timer = _timer(arrivals, arrival_slack, timers)
    step = Closing(
        schema=held,
        subject=subject_name,
        key=key_name,
        time=times,
        arrival=arrivals,
        rule=_rule(times, arrivals, window, timeout, rule, duplicate_memory),
        timer=timer,
    )
    kind = schema[subject_name].dataType.simpleString()
    parted = df.mapInArrow(
        Parting(held, subject_name, needed, refuses=invalid == "error"), _PARTED.format(kind)
    )
    closed = parted.groupBy(SUBJECT).applyInPandasWithState(
        step, _CLOSED, "state BINARY", "append", _TIMEOUTS[timer]
    )
    counted = closed.observe(
        name, *(functions.coalesce(functions.sum(count), functions.lit(0)).alias(count) for count in COUNTS)
    )
    return counted.mapInArrow(
        Opening(held, Batches(subject_name, times)), _batches(schema, subject_name, times)
    )


_TIMEOUTS = {
    "processing": "ProcessingTimeTimeout",
    "watermark": "EventTimeTimeout",
    None: "NoTimeout",
}


def _timer(
    arrival: TimeColumn | None, arrival_slack: Seconds | None, timers: bool
) -> Literal["processing", "watermark"] | None:
    if arrival is None:
        return "processing" if timers else None
    return None if arrival_slack is None else "watermark"


def _watermarked(df: DataFrame, arrival: TimeColumn | None, slack: Seconds) -> DataFrame:
    if arrival is None or not arrival.is_clock:
        raise ValueError(
            "arrival_slack needs an arrival column of timestamps; "
            + ("there is none" if arrival is None else f"{arrival.name!r} holds {arrival.type}")
        )
    milliseconds = round(seconds("arrival_slack", slack, zero=True) * 1000)
    return df.withWatermark(arrival.name, f"{milliseconds} milliseconds")


def _rule(
    time: TimeColumn,
    arrival: TimeColumn | None,
    window: Seconds | None,
    timeout: Seconds | None,
    rule: ByEventTime | None,
    duplicate_memory: Seconds | None,
) -> Rule:
    ticks = MICROSECONDS if arrival is None else arrival.unit
    memory = None
    if duplicate_memory is not None:
        memory = _span("duplicate_memory", duplicate_memory, ticks)
    if rule is None:
        if window is None or timeout is None:
            raise ValueError(
                f"window and timeout must both be given, not {window!r} and {timeout!r}"
            )
        spans = (_width(time, "window", window), _span("timeout", timeout, ticks))
        return Rule(spans, by_event_time=False, duplicate_memory=memory)
    if window is not None or timeout is not None or memory is not None:
        raise ValueError("rule stands in place of window, timeout and duplicate_memory")
    _check_one_clock(time, arrival)
    return Rule(
        (
            _width(time, "event_jitter", rule.event_jitter),
            _span("delivery_jitter", rule.delivery_jitter, ticks),
            _span("message_leap_limit", rule.message_leap_limit, ticks),
        ),
        by_event_time=True,
        duplicate_memory=None,
    )


def _check_one_clock(time: TimeColumn, arrival: TimeColumn | None) -> None:
    """The other rule compares event times with arrivals."""
    told = pa.timestamp("us", "UTC") if arrival is None else arrival.type
    if time.is_clock != pa.types.is_timestamp(told) or (time.is_clock and time.type != told):
        by = "the processing time, a timestamp" if arrival is None else f"arrival, a {told}"
        raise ValueError(
            f"rule=ByEventTime compares time, a {time.type}, with {by}: make both of one type"
        )


def _width(time: TimeColumn, parameter: str, value: Seconds) -> float:
    width = _span(parameter, value, time.unit)
    # Between whole numbers a part of one is as good as nothing.
    return int(width) if time.is_whole else width


def _span(parameter: str, value: Seconds, unit: int) -> float:
    span = seconds(parameter, value, zero=True)
    return span if unit == 1 else round(span * unit)


def _batches(schema: StructType, subject: str, time: TimeColumn) -> StructType:
    at = schema[time.name].dataType
    return StructType(
        [
            StructField("subject", schema[subject].dataType),
            StructField("start", at),
            StructField("end", at),
            StructField("messages", ArrayType(_nullable(schema), containsNull=False)),
            StructField("id", StringType()),
        ]
    )


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, field.dataType) for field in schema])
