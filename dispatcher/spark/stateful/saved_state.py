"""Reads from its checkpoint the rows that the state of a stopped query still holds.

Spark has a reader for that since 4.0. It reads the state after the last finished micro-batch, and
changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from dispatcher.spark.stateful._by_subject import ROWS, Opening
from dispatcher.spark.stateful._closing import Batches, OpenBatches, SubjectClosing
from dispatcher.spark.stateful._columns import arrow_schema, name_column, time_column
from dispatcher.spark.stateful._holding import HeldRows, SubjectHolding, released
from dispatcher.spark.stateful._parcels import Parcels
from dispatcher.spark.stateful._rules import Rule
from dispatcher.spark.stateful.event_time import batches_schema
from dispatcher.spark.stateful.hold_back import released_schema

_STATE = "state"


def flush_open_batches(
    df: DataFrame, checkpoint: str, *, subject: str, key: str, time: str, operator: int = 0
) -> DataFrame:
    """Return the batches that a stopped query of `event_time_batches` has left open, closed as they
    are.

    * `df`, `subject`, `key`, `time`: the arguments of `event_time_batches`; `df` is not read.
    * `checkpoint`: the query's checkpointLocation.
    * `operator`: the number of the stateful step in the query, counted from 0.

    The result is a DataFrame that is not a stream, with the same columns. The state does not
    change: if the query goes on later, it returns these batches again, with the same `id` if no
    message was added to them. Needs Spark 4; RuntimeError says what to do with an older one.

    >>> rest = flush_open_batches(
    ...     readings, "/checkpoints/readings", subject="device", key="metric", time="at"
    ... )  # doctest: +SKIP
    """
    schema = df.schema
    subject_name = name_column("subject", subject, schema)
    times = time_column("time", time, schema)
    held = arrow_schema(schema)
    step = SubjectClosing(
        schema=held,
        subject=subject_name,
        key=name_column("key", key, schema),
        time=times,
        arrival=None,
        rule=Rule((0, 0), by_event_time=False, duplicate_memory=None),
        timer=None,
    )
    return (
        _state(df, checkpoint, operator)
        .mapInArrow(_Flushing(step), f"{ROWS} BINARY")
        .mapInArrow(
            Opening(held, Batches(subject_name, times)),
            batches_schema(schema, subject_name, times),
        )
    )


def flush_held_rows(df: DataFrame, checkpoint: str, *, time: str, operator: int = 0) -> DataFrame:
    """Return the rows that a stopped query of `hold_back` still holds. The arguments and the state
    are treated as by `flush_open_batches`.

    >>> rest = flush_held_rows(readings, "/checkpoints/readings", time="at")  # doctest: +SKIP
    """
    held = arrow_schema(df.schema)
    step = SubjectHolding(
        held, time_column("time", time, df.schema), delay_ms=0, forget_after_ms=None
    )
    return (
        _state(df, checkpoint, operator)
        .mapInArrow(_Releasing(step), f"{ROWS} BINARY")
        .mapInArrow(Opening(held, released), released_schema(df.schema))
    )


@dataclass(frozen=True)
class _Flushing:
    """A function for mapInArrow that takes states and returns parcels of closed batches."""

    step: SubjectClosing

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parcels = Parcels(self.step.schema)
        for state in _states(batches):
            held = OpenBatches(self.step, parcels, state)
            if closed := held.flush():
                yield _parcel(held.closed(closed))


@dataclass(frozen=True)
class _Releasing:
    """A function for mapInArrow that takes states and returns parcels of rows."""

    step: SubjectHolding

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parcels = Parcels(self.step.schema)
        for state in _states(batches):
            held = HeldRows(self.step, parcels, state)
            late, on_time = held.everything()
            if late or on_time:
                yield _parcel(held.packed(late, on_time))


def _state(df: DataFrame, checkpoint: str, operator: int) -> DataFrame:
    spark = df.sparkSession
    if int(spark.version.split(".")[0]) < 4:
        raise RuntimeError(
            f"Spark {spark.version} cannot read a checkpoint's state: let the query run until all "
            "has closed on time, or use Spark 4"
        )
    reader = spark.read.format("statestore").option("operatorId", operator)
    return reader.load(checkpoint).selectExpr(f"value.groupState.{_STATE} AS {_STATE}")


def _states(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        yield from batch.column(_STATE).to_pylist()


def _parcel(data: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([data], pa.binary())], names=[ROWS])
