"""From the record batches of a task, sorted by sequence and time, to the rows of each sequence."""

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
    """The columns that are looked at."""

    sequence: str | None
    """Whose rows go one after the other; None: all rows of the task are one sequence."""
    time: str | None
    end: str | None = None
    """Of a row that stands for a span of time."""
    subject: str | None = None
    """Of a lane's rows."""
    costs: Mapping[str, Expression] = field(default_factory=dict)
    """What a row costs, by dimension, where columns say it."""
    hash: str | None = None
    """A hash of all that makes a row this one."""
    messages: str | None = None
    """What the handler is given of a row, if not the row."""
    added: tuple[str, ...] = ()
    """Those that were only added to be looked at: a handler never sees them."""


@dataclass(slots=True)
class RowGroup:
    """All rows of one sequence in a task, in order."""

    sequence: Any
    parts: list[Any] = field(default_factory=list)
    sources: list[pa.RecordBatch] = field(default_factory=list)
    """The same rows, as Spark gave them."""
    times: list[np.ndarray[Any, Any]] = field(default_factory=list)
    ends: list[np.ndarray[Any, Any]] = field(default_factory=list)
    costs: dict[str, list[np.ndarray[Any, Any]]] = field(default_factory=dict)
    """By dimension."""
    hashes: list[np.ndarray[Any, Any]] = field(default_factory=list)
    subjects: list[Any] = field(default_factory=list)
    size: int = 0
    without_time: int = 0
    """How many have none; they come first."""
    unreadable: dict[int, str] = field(default_factory=dict)
    """Why a row cannot be given to a handler, by its place."""


@dataclass(frozen=True, slots=True)
class Source:
    """Some rows of a group, as Spark gave them: whatever a handler does to its rows, these stay."""

    batches: list[pa.RecordBatch]
    places: Sequence[int]

    def batch(self) -> pa.RecordBatch:
        """Those rows."""
        import pyarrow as pa

        table = pa.Table.from_batches(self.batches)
        if isinstance(self.places, range):
            table = table.slice(self.places.start, len(self.places))
        else:
            table = table.take(pa.array(self.places, pa.int64()))
        (batch,) = table.combine_chunks().to_batches()
        return batch

    def last(self, count: int) -> Source:
        """The last `count` of them."""
        return Source(self.batches, self.places[-count:])


def groups_of(
    batches: Iterable[pa.RecordBatch], columns: Columns, rows: Format, *, in_order: bool
) -> Iterator[list[RowGroup]]:
    """The groups that are complete, after each record batch. With `in_order` a group may go on
    in the next one; else each record batch is a group."""
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
    """A record batch, its columns read."""

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
        costs = {dimension: told.of(batch) for dimension, told in columns.costs.items()}
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
    """The same, if need be in a time zone in which no two times look alike, and which stays the
    same when that of the session does not."""
    import pyarrow as pa

    return column.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column


def _runs(column: pa.Array) -> list[tuple[Any, int, int]]:
    """Each value of a sorted column, and where it begins and ends."""
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
"""In microseconds."""


def _beyond(name: str, column: pa.Array, times: np.ndarray[Any, Any]) -> dict[int, str]:
    """Why rows cannot be sent by their time: Python cannot hold it, or it is infinite, after which
    all others would be late."""
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
    """Times as numbers; where there is none, any number."""
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
