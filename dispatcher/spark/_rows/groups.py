"""Groups the record batches of a task, sorted by sequence and time, into the rows of each
sequence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dispatcher.spark._rows.expressions import Expression
from dispatcher.spark._rows.formats import Format, why_unreadable
from dispatcher.spark._rows.python_values import values_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Columns:
    """The names of the columns that a task reads."""

    sequence: str | None
    """The column of sequences: rows of one are sent in order. None: all rows of the task are
    one."""
    time: str | None
    end: str | None = None
    """The column of the end of a row's span of time."""
    subject: str | None = None
    """The column of the subject of a lane's rows."""
    costs: Mapping[str, Expression] = field(default_factory=dict)
    """The cost of a row by dimension, where columns hold it."""
    hash: str | None = None
    """The column of the hash of all values that identify a row."""
    messages: str | None = None
    """The column of messages that the handler is given, if not the row."""
    added: tuple[str, ...] = ()
    """Columns that a sink has added: a handler never sees them."""


@dataclass(slots=True)
class RowGroup:
    """All rows of one sequence in a task, in order."""

    sequence: Any
    parts: list[Any] = field(default_factory=list)
    sources: list[pa.RecordBatch] = field(default_factory=list)
    """The rows in `parts`, as Spark gave them."""
    times: list[np.ndarray[Any, Any]] = field(default_factory=list)
    ends: list[np.ndarray[Any, Any]] = field(default_factory=list)
    costs: dict[str, list[np.ndarray[Any, Any]]] = field(default_factory=dict)
    """The costs of the rows by dimension, where columns hold them."""
    hashes: list[np.ndarray[Any, Any]] = field(default_factory=list)
    subjects: list[Any] = field(default_factory=list)
    size: int = 0
    without_time: int = 0
    """The number of rows without a time; they come first."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """For each row that cannot be given to a handler, by its place: why."""


@dataclass(frozen=True, slots=True)
class Source:
    """Some rows of a group, as Spark gave them. A handler cannot change them."""

    batches: list[pa.RecordBatch]
    places: Sequence[int]

    def batch(self) -> pa.RecordBatch:
        """Return the rows as one record batch."""
        import pyarrow as pa

        table = pa.Table.from_batches(self.batches)
        if isinstance(self.places, range):
            table = table.slice(self.places.start, len(self.places))
        else:
            table = table.take(pa.array(self.places, pa.int64()))
        (batch,) = table.combine_chunks().to_batches()
        return batch

    def last(self, count: int) -> Source:
        """Return the last `count` of these rows."""
        return Source(self.batches, self.places[-count:])


def groups_of(
    batches: Iterable[pa.RecordBatch], columns: Columns, rows: Format, *, in_order: bool
) -> Iterator[list[RowGroup]]:
    """Return the groups that are complete after each record batch. With `in_order` a group may
    continue in the next record batch; else each record batch is a group."""
    last: RowGroup | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        read = _Read.of(batch, columns, rows)
        complete: list[RowGroup] = []
        for sequence, start, end in read.runs:
            if last is None or last.sequence != sequence:
                if last is not None:
                    complete.append(last)
                last = RowGroup(sequence)
            read.add(last, start, end)
        if not in_order and last is not None:
            complete.append(last)
            last = None
        yield complete
    if last is not None:
        yield [last]


@dataclass(slots=True, kw_only=True)
class _Read:
    """A record batch, with the values of its columns."""

    format: Format
    batch: pa.RecordBatch
    rows: Any
    unreadable: dict[int, str]
    runs: list[tuple[Any, int, int]]
    times: np.ndarray[Any, Any] | None
    ends: np.ndarray[Any, Any] | None
    timeless: np.ndarray[Any, Any] | None
    costs: dict[str, np.ndarray[Any, Any]]
    hashes: np.ndarray[Any, Any] | None
    subjects: list[Any] | None

    @classmethod
    def of(cls, batch: pa.RecordBatch, columns: Columns, rows: Format) -> _Read:
        times = ends = timeless = hashes = subjects = None
        beyond: dict[int, str] = {}
        runs = [(None, 0, batch.num_rows)]
        if columns.sequence is not None:
            runs = _runs(_names(batch.column(columns.sequence)))
        if columns.time is not None:
            column = batch.column(columns.time)
            times = _numbers(column)
            beyond |= _beyond(columns.time, column, times)
            timeless = (
                column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
            )
        if columns.end is not None:
            column = batch.column(columns.end)
            ends = _numbers(column)
            beyond |= _beyond(columns.end, column, ends)
        if columns.subject is not None:
            subjects, _ = values_of(_names(batch.column(columns.subject)))
        costs = {dimension: one.of(batch) for dimension, one in columns.costs.items()}
        if columns.hash is not None:
            hashes = batch.column(columns.hash).to_numpy(zero_copy_only=False)
        if columns.added:
            batch = batch.select([n for n in batch.schema.names if n not in columns.added])
        read = rows.read(batch)
        return cls(
            format=rows,
            batch=batch,
            rows=read.rows,
            unreadable=beyond | read.unreadable,
            runs=runs,
            times=times,
            ends=ends,
            timeless=timeless,
            costs=costs,
            hashes=hashes,
            subjects=subjects,
        )

    def add(self, group: RowGroup, start: int, end: int) -> None:
        group.parts.append(self.format.part(self.rows, start, end))
        group.sources.append(self.batch.slice(start, end - start))
        for place, reason in self.unreadable.items():
            if start <= place < end:
                group.unreadable[group.size + place - start] = reason
        group.size += end - start
        if self.times is not None:
            group.times.append(self.times[start:end])
        if self.ends is not None:
            group.ends.append(self.ends[start:end])
        if self.timeless is not None:
            group.without_time += int(self.timeless[start:end].sum())
        for dimension, costs in self.costs.items():
            group.costs.setdefault(dimension, []).append(costs[start:end])
        if self.hashes is not None:
            group.hashes.append(self.hashes[start:end])
        if self.subjects is not None:
            group.subjects += self.subjects[start:end]


def _names(column: pa.Array) -> pa.Array:
    """Return `column`, with timestamps in UTC: there no two times have the same text, and a change
    of the session's time zone has no effect."""
    import pyarrow as pa

    return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column


def _runs(column: pa.Array) -> list[tuple[Any, int, int]]:
    """Return each value of a sorted column, with where it begins and ends."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    length = len(column)
    changes = pc.not_equal(column.slice(1), column.slice(0, length - 1))
    if column.null_count:
        absent = column.is_null()
        turns = pc.not_equal(absent.slice(1), absent.slice(0, length - 1))
        changes = pc.or_(changes.fill_null(False), turns)
    starts = np.concatenate(([0], np.flatnonzero(changes.to_numpy(zero_copy_only=False)) + 1))
    values, _ = values_of(column.take(pa.array(starts, pa.int64())))
    return list(zip(values, starts.tolist(), [*starts[1:].tolist(), length], strict=True))


FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""Python's first day and its last, in days since 1970."""
DAY = 86_400_000_000
"""Microseconds of a day."""


def _beyond(name: str, column: pa.Array, times: np.ndarray[Any, Any]) -> dict[int, str]:
    """Return which rows cannot be sent because of their time, and why: Python cannot hold it, or it
    is infinite, which would make all later rows late."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        places = np.flatnonzero(np.isinf(times)).tolist()
        return {place: f"its {name} is {times[place].item()}" for place in places}
    if pa.types.is_timestamp(column.type):
        outside = (times < FIRST_DAY * DAY) | (times >= (LAST_DAY + 1) * DAY)
    elif pa.types.is_date(column.type):
        outside = (times < FIRST_DAY) | (times > LAST_DAY)
    else:
        return {}
    places = np.flatnonzero(outside).tolist()
    texts = column.take(pa.array(places, pa.int64())).cast(pa.string()).to_pylist()
    return {place: why_unreadable(name, text) for place, text in zip(places, texts, strict=True)}


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    """Return times as numbers; the number is arbitrary where there is no time."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32()).cast(pa.int64())
    else:
        column = column.cast(pa.int64())
    numbers: np.ndarray[Any, Any] = column.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers
