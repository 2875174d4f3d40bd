"""In which form a handler is given its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

Rows = Any
"""What a handler is given: a list of rows, or a pyarrow.RecordBatch."""


class Format(Protocol):
    """One form of rows."""

    def read(self, batch: pa.RecordBatch) -> Any:
        """The rows of a record batch, in a form that `part` can take parts of."""
        ...

    def part(self, rows: Any, start: int, end: int) -> Any:
        """Rows `start` to `end`, without the last."""
        ...

    def together(self, parts: Sequence[Any]) -> Rows:
        """Parts as one."""
        ...

    def chosen(self, rows: Rows, places: Sequence[int]) -> Rows:
        """The rows at `places`, in their order."""
        ...

    def costs(self, rows: Rows, cost: Callable[[Any], float] | float) -> list[float] | float:
        """What each row costs, or any of them, if `cost` says what one costs."""
        ...

    def dicts(self, rows: Rows) -> list[dict[str, Any]]:
        """Each row as a dict, for dead letters."""
        ...


class _Listed:
    """A list of rows."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def read(self, batch: pa.RecordBatch) -> list[Any]:
        self._names = batch.schema.names
        return self._rows(zip(*map(_values, batch.columns), strict=True))

    def _rows(self, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
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

    def dicts(self, rows: list[Any]) -> list[dict[str, Any]]:
        return [dict(zip(self._names, row, strict=True)) for row in rows]


class AsTuple(_Listed):
    """Each row a tuple."""

    def _rows(self, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        return list(rows)


class AsDict(_Listed):
    """Each row a dict."""

    def _rows(self, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        names = self._names
        return [dict(zip(names, row, strict=True)) for row in rows]

    def dicts(self, rows: list[Any]) -> list[dict[str, Any]]:
        return rows


class AsRow(_Listed):
    """Each row a pyspark.sql.Row."""

    def _rows(self, rows: Iterable[tuple[Any, ...]]) -> list[Any]:
        from pyspark.sql import Row

        row = Row(*self._names)
        return [row(*values) for values in rows]


class AsArrow:
    """All rows a pyarrow.RecordBatch."""

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def part(self, rows: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
        return rows.slice(start, end - start)

    def together(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        if len(parts) == 1:
            return parts[0]
        import pyarrow as pa

        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    def chosen(self, rows: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
        import pyarrow as pa

        return rows.take(pa.array(places, pa.int64()))

    def costs(
        self, rows: pa.RecordBatch, cost: Callable[[Any], float] | float
    ) -> list[float] | float:
        return [cost(row) for row in self.dicts(rows)] if callable(cost) else cost

    def dicts(self, rows: pa.RecordBatch) -> list[dict[str, Any]]:
        return AsDict().read(rows)


class OfMessages:
    """Each row's `column` holds messages; the handler is given those, in a form of their own."""

    def __init__(self, column: str, messages: Format) -> None:
        self._column = column
        self._messages = messages

    def read(self, batch: pa.RecordBatch) -> list[Any]:
        import pyarrow as pa

        column = batch.column(self._column)
        records = pa.RecordBatch.from_struct_array(column.flatten())
        messages = self._messages.read(records)
        read, start = [], 0
        for length in column.value_lengths().fill_null(0).to_pylist():
            read.append(self._messages.part(messages, start, start + length))
            start += length
        return read

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

    def dicts(self, rows: Rows) -> list[dict[str, Any]]:
        return self._messages.dicts(rows)


FORMATS: dict[str, type[Format]] = {
    "row": AsRow,
    "dict": AsDict,
    "tuple": AsTuple,
    "arrow": AsArrow,
}


def _values(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if pairs is None else dict(pairs) for pairs in values]
    return values
