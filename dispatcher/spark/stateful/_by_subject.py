"""Packs the rows of each subject into one parcel of bytes for a stateful step, and opens the
results.

Spark gives a stateful function one pandas frame for each subject, column by column. That takes
longer than the function itself, and loses types that pandas does not have. One parcel for many rows
takes little time, and no type is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions

from dispatcher.spark.stateful._columns import TimeColumn, canonical
from dispatcher.spark.stateful._parcels import Parcels

SUBJECT, ROWS, LATEST = "subject", "rows", "latest"
INVALID = "invalid"
_OBJECT = np.dtype(object)
_ROWS_PLACE = 1
"""The place of ROWS among the columns of `Parting`."""
_CLOCK = pa.timestamp("us", "UTC")
_MOST_ROWS = 100_000
_MOST_BYTES = 32 * 2**20


class Parting:
    """A function for mapInArrow that takes rows and returns a parcel for each subject among them.

    Rows that have null or NaN in one of `needed` are left out, or raise ValueError. Their number is
    the header of a parcel without rows, which belongs to no subject. It has no column of its own:
    Spark makes a pandas Series of each column for each subject, which takes longer than all rows.

    The rows of a parcel are in order of `time`, if there is one.

    If `clock` is given, Spark's watermark follows the latest value of that column. This value is
    put into a row of its own, which belongs to no subject: Spark drops rows behind its watermark,
    and must find none to drop, since a late arrival is a message like any other.
    """

    def __init__(
        self,
        schema: pa.Schema,
        subject: str,
        needed: list[str],
        *,
        refuses: bool,
        clock: str | None = None,
        time: TimeColumn | None = None,
    ) -> None:
        self.clock = clock
        self._time = time
        self._schema = schema
        self.subject = subject
        self._needed = needed
        self._refuses = refuses

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parcels = Parcels(self._schema)
        for rows in _gathered(canonical(batch, self._schema) for batch in batches):
            if rows.num_rows:
                yield self._parted(rows, parcels)

    def _parted(self, rows: pa.RecordBatch, parcels: Parcels) -> pa.RecordBatch:
        kept = self._valid(rows)
        invalid = rows.num_rows - kept.num_rows
        firsts: list[int] = []
        parts: list[bytes | None] = []
        if kept.num_rows:
            codes = kept.column(self.subject).dictionary_encode().indices.to_numpy()
            if self._time is None:
                order = np.argsort(codes, kind="stable")
            else:  # one sort of all rows is faster than one for each subject
                order = np.lexsort((self._time.numbers(kept.column(self._time.name)), codes))
            changes = np.flatnonzero(np.diff(codes[order])) + 1
            bounds = [0, *changes.tolist(), len(codes)]
            kept = kept.take(pa.array(order))
            for begin, end in pairwise(bounds):
                firsts.append(begin)
                parts.append(parcels.pack(b"", kept.slice(begin, end - begin)))
        subjects = kept.column(self.subject).take(pa.array(firsts, pa.int64()))
        if invalid:
            parts.append(parcels.pack(b"%d" % invalid, parcels.none))
        latest: list[int | None] = [None] * len(parts)
        if self.clock is not None and (at := self._latest(rows, self.clock)) is not None:
            parts.append(None)
            latest.append(at)
        of_none = len(parts) - len(subjects)
        columns = [
            pa.concat_arrays([subjects, pa.nulls(of_none, subjects.type)]),
            pa.array(parts, pa.binary()),
        ]
        names = [SUBJECT, ROWS]
        if self.clock is not None:
            columns.append(pa.array(latest, pa.int64()).cast(_CLOCK))
            names.append(LATEST)
        return pa.RecordBatch.from_arrays(columns, names=names)

    @staticmethod
    def _latest(rows: pa.RecordBatch, clock: str) -> int | None:
        return pc.max(rows.column(clock).cast(pa.int64())).as_py()  # type: ignore[no-any-return]

    def _valid(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        valid = None
        for name in self._needed:
            column = rows.column(name)
            good = None
            if pa.types.is_floating(column.type):
                good = pc.fill_null(pc.is_finite(column), False)
                if good.false_count == 0:
                    good = None
            elif column.null_count:
                good = pc.is_valid(column)
            if good is None:
                continue
            if self._refuses:
                raise ValueError(
                    f"{good.false_count} of {rows.num_rows} rows have no usable value in the "
                    f"column {name!r} (null, NaN or infinite): filter them out before this step, "
                    "or pass invalid='drop' to leave them out and count them"
                )
            valid = good if valid is None else pc.and_(valid, good)
        return rows if valid is None else rows.filter(valid)


OpenAll = Callable[[list[tuple[bytes, int]], pa.RecordBatch], pa.RecordBatch]
"""Takes the header of each parcel with its number of rows, and the rows of all of them."""


class Opening:
    """A function for mapInArrow that takes parcels and returns what `open_all` makes of all parcels
    of a record batch. One record batch for each parcel would take longer than its rows."""

    def __init__(self, schema: pa.Schema, open_all: OpenAll) -> None:
        self._schema = schema
        self._open_all = open_all

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parcels = Parcels(self._schema)
        for batch in batches:
            opened = [
                parcels.unpack(data) for data in batch.column(ROWS).to_pylist() if data is not None
            ]
            if opened:
                headers = [(header, rows.num_rows) for header, rows in opened]
                yield self._open_all(headers, joined([rows for _, rows in opened]))


def result(names: pd.Index, closed: bytes | None, counts: list[int]) -> pd.DataFrame:
    """Return the result of a stateful function for one subject."""
    # This frame is made for each subject. Its values are objects, although most are numbers, so
    # that pandas neither checks nor copies them. Spark converts each column to its type.
    return pd.DataFrame(np.array([[closed, *counts]], object), columns=names, dtype=_OBJECT)


def received(frames: Iterator[pd.DataFrame], parcels: Parcels) -> tuple[list[pa.RecordBatch], int]:
    """Return the rows of one subject, and how many were left out."""
    rows: list[pa.RecordBatch] = []
    invalid = 0
    for frame in frames:
        # The column by its name would be a Series, which takes longer to make than to read.
        for data in frame.to_numpy()[:, _ROWS_PLACE]:
            if data is None:
                continue
            left_out, of_subject = parcels.unpack(data)
            if left_out:
                invalid += int(left_out)
            else:
                rows.append(of_subject)
    return rows, invalid


def stateful(
    df: DataFrame,
    parting: Parting,
    step: Any,
    counts: list[str],
    timeouts: str,
    slack_ms: int | None = None,
) -> DataFrame:
    """Return the parcels, one for each subject, that `step` makes of the rows of `df`."""
    kind = df.schema[parting.subject].dataType.simpleString()
    schema = f"{SUBJECT} {kind}, {ROWS} BINARY"
    if parting.clock is None:
        parted = df.mapInArrow(parting, schema)
    else:
        parted = df.mapInArrow(parting, f"{schema}, {LATEST} TIMESTAMP")
        parted = parted.withWatermark(LATEST, f"{slack_ms} milliseconds")
    out = ", ".join([f"{ROWS} BINARY", *(f"{count} BIGINT" for count in counts)])
    return parted.groupBy(SUBJECT).applyInPandasWithState(
        step, out, "state BINARY", "append", timeouts
    )


def counted(df: DataFrame, name: str, counts: list[str]) -> DataFrame:
    """Return `df`, with the sums of these columns in each progress report."""
    return df.observe(
        name,
        *(
            functions.coalesce(functions.sum(count), functions.lit(0)).alias(count)
            for count in counts
        ),
    )


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return record batches of one schema as one."""
    if len(batches) == 1:
        return batches[0]
    table = pa.Table.from_batches(batches).combine_chunks()
    whole = table.to_batches()
    # One column cannot hold more than 2 GB of texts.
    if len(whole) > 1:
        raise ValueError("more than 2 GB of one column in one step: make micro-batches smaller")
    return whole[0] if whole else batches[0]


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of `batches` in fewer and larger record batches."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _MOST_ROWS or size >= _MOST_BYTES:
            yield joined(held)
            held, rows, size = [], 0, 0
    if held:
        yield joined(held)
