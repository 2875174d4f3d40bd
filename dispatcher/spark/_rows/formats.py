"""The forms in which a handler is given its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dispatcher.spark._rows.python_values import values_of

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Any
"""The rows that a handler is given: a list of rows, or a pyarrow.RecordBatch."""


class Read(NamedTuple):
    """The rows of a record batch in the form of a handler."""

    rows: Any
    """The rows, from which `part` can take parts."""
    unreadable: dict[int, str]
    """For each row that cannot be given to a handler, by its place: why."""


class Format(Protocol):
    """One form of rows. Thread-safe: it has no state."""

    def read(self, batch: pa.RecordBatch) -> Read:
        """Read the rows of a record batch."""
        ...

    def part(self, rows: Any, start: int, end: int) -> Any:
        """Return the rows from `start` up to `end`, which is excluded."""
        ...

    def together(self, parts: Sequence[Any]) -> Rows:
        """Return all rows of `parts` as one."""
        ...

    def chosen(self, rows: Rows, places: Sequence[int]) -> Rows:
        """Return the rows at `places`, in their order."""
        ...

    def costs(self, rows: Rows, cost: Callable[[Any], float] | float) -> list[float] | float:
        """Return the cost of each row, or one number if `cost` is a number."""
        ...

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records of `batch` that a handler is given."""
        ...

    def of_records(self, records: pa.RecordBatch) -> Rows:
        """Return records in the form in which a handler is given them."""
        ...


class _Listed:
    """A list of rows."""

    def read(self, batch: pa.RecordBatch) -> Read:
        names, columns, reasons = batch.schema.names, [], dict[int, str]()
        for name, column in zip(names, batch.columns, strict=True):
            values, unreadable = values_of(column)
            columns.append(values)
            for place, text in unreadable.items():
                reasons.setdefault(place, why_unreadable(name, text))
        return Read(self._rows(names, zip(*columns, strict=True)), reasons)

    def _rows(self, names: list[str], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        raise NotImplementedError

    def part(self, rows: list[Any], start: int, end: int) -> list[Any]:
        return rows[start:end]

    def together(self, parts: Sequence[list[Any]]) -> list[Any]:
        if len(parts) == 1:
            return parts[0]
        return [row for part in parts for row in part]

    def chosen(self, rows: list[Any], places: Sequence[int]) -> list[Any]:
        return [rows[place] for place in places]

    def costs(self, rows: list[Any], cost: Callable[[Any], float] | float) -> list[float] | float:
        return [cost(row) for row in rows] if callable(cost) else cost

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def of_records(self, records: pa.RecordBatch) -> list[Any]:
        rows: list[Any] = self.read(records).rows
        return rows


class AsTuple(_Listed):
    """Each row a tuple."""

    def _rows(self, names: list[str], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        return list(rows)


class AsDict(_Listed):
    """Each row a dict."""

    def _rows(self, names: list[str], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        # All columns have one length, which need not be checked again for each row.
        return [dict(zip(names, row, strict=False)) for row in rows]


class AsRow(_Listed):
    """Each row a pyspark.sql.Row."""

    def _rows(self, names: list[str], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        from pyspark.sql import Row

        # This makes the same as Row(*names)(*values), without four calls of Python for each row.
        fields, made, new = Row(*names), list[Any](), tuple.__new__
        for values in rows:
            row = new(Row, values)
            row.__dict__["__fields__"] = fields
            made.append(row)
        return made


class AsArrow:
    """All rows a pyarrow.RecordBatch."""

    def read(self, batch: pa.RecordBatch) -> Read:
        return Read(batch, {})

    def part(self, rows: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
        return rows.slice(start, end - start)

    def together(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        if len(parts) == 1:
            return parts[0]
        import pyarrow as pa

        # One batch, or an error if there is more text than its offsets can count.
        return pa.RecordBatch.from_struct_array(
            pa.concat_arrays([part.to_struct_array() for part in parts])
        )

    def chosen(self, rows: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
        import pyarrow as pa

        return rows.take(pa.array(places, pa.int64()))

    def costs(
        self, rows: pa.RecordBatch, cost: Callable[[Any], float] | float
    ) -> list[float] | float:
        return [cost(row) for row in dicts(rows)] if callable(cost) else cost

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def of_records(self, records: pa.RecordBatch) -> pa.RecordBatch:
        return records


class OfMessages:
    """Messages, which each row's `column` holds, in place of the rows."""

    def __init__(self, column: str, messages: Format) -> None:
        self._column = column
        self._messages = messages

    def read(self, batch: pa.RecordBatch) -> Read:
        messages, unreadable = self._messages.read(self.records(batch))
        rows: list[Any] = []
        reasons: dict[int, str] = {}
        start = 0
        lengths = batch.column(self._column).value_lengths().fill_null(0).to_pylist()
        for place, length in enumerate(lengths):
            end = start + length
            rows.append(self._messages.part(messages, start, end))
            for message in range(start, end) if unreadable else ():
                if message in unreadable:
                    reasons.setdefault(place, unreadable[message])
            start = end
        return Read(rows, reasons)

    def part(self, rows: list[Any], start: int, end: int) -> list[Any]:
        return rows[start:end]

    def together(self, parts: Sequence[list[Any]]) -> list[Any]:
        return [row for part in parts for row in part]

    def chosen(self, rows: list[Any], places: Sequence[int]) -> Rows:
        return self._messages.together([rows[place] for place in places])

    def costs(self, rows: list[Any], cost: Callable[[Any], float] | float) -> list[float] | float:
        of_each = [self._messages.costs(messages, cost) for messages in rows]
        return [
            sum(costs) if isinstance(costs, list) else costs * len(messages)
            for costs, messages in zip(of_each, rows, strict=True)
        ]

    def records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_struct_array(batch.column(self._column).flatten())

    def of_records(self, records: pa.RecordBatch) -> Rows:
        return self._messages.of_records(records)


FORMATS: dict[str, type[Format]] = {
    "row": AsRow,
    "dict": AsDict,
    "tuple": AsTuple,
    "arrow": AsArrow,
}


def dicts(records: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return each record as a dict."""
    return AsDict().of_records(records)


def why_unreadable(name: str, value: object) -> str:
    """Return why a row cannot be given to a handler."""
    return f"its {name} ({value}) is beyond what Python can hold"
