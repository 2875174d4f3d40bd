"""Converts values of Arrow to values of Python: maps to dicts, at any depth, and values that Python
cannot hold to their texts.

Whole columns are converted at a time, nested ones by their parts: Arrow's own `to_pylist` takes
microseconds for each time, more than everything else that is done with a row. A column with a value
that Python cannot hold is converted value by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dispatcher.spark._rows.times import is_time, times_of

if TYPE_CHECKING:
    import pyarrow as pa


class Unreadable(str):
    """The text of a value that Python has no object for, such as a day after the year 9999."""

    __slots__ = ()


def values_of(column: pa.Array) -> tuple[list[Any], dict[int, str]]:
    """Return the values of `column`, and by their places the texts of those that Python cannot
    hold. Such a text, an Unreadable, stands in place of the value, also inside nested values.

    >>> import pyarrow as pa
    >>> values_of(pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())))
    ([{'a': 1}, None], {})
    >>> values_of(pa.array([0, 5_000_000], pa.date32()))
    ([datetime.date(1970, 1, 1), '15659-07-15'], {1: '15659-07-15'})
    """
    try:
        return _readable(column), {}
    except (OverflowError, ValueError):
        pass
    values: list[Any] = []
    unreadable: dict[int, str] = {}
    for place in range(len(column)):
        texts: list[str] = []
        values.append(_value(column, place, texts))
        if texts:
            unreadable[place] = texts[0]
    return values, unreadable


def _readable(column: pa.Array) -> list[Any]:
    """Return all values. OverflowError or ValueError if Python cannot hold one."""
    import pyarrow as pa

    kind = column.type
    if not len(column):
        return []
    if is_time(kind):
        return times_of(column)
    values: list[Any]
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        fields = [_readable(column.field(number)) for number in range(len(names))]
        members = zip(*fields, strict=True) if fields else [()] * len(column)
        values = [dict(zip(names, member, strict=True)) for member in members]
    elif pa.types.is_map(kind):
        pairs = list(zip(*_elements(column, column.keys, column.items), strict=True))
        values = [dict(pairs[start:end]) for start, end in _bounds(column)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        (elements,) = _elements(column, column.values)
        values = [elements[start:end] for start, end in _bounds(column)]
    else:
        values = column.to_pylist()
        return values
    if column.null_count:
        valid = column.is_valid().to_pylist()
        return [value if one else None for value, one in zip(values, valid, strict=True)]
    return values


def _elements(column: pa.Array, *inner: pa.Array) -> list[list[Any]]:
    """Return the elements of the lists or maps of `column`, which may be a part of `inner`."""
    offsets = column.offsets
    start, end = offsets[0].as_py(), offsets[-1].as_py()
    return [_readable(values.slice(start, end - start)) for values in inner]


def _bounds(column: pa.Array) -> Iterator[tuple[int, int]]:
    """Return where each list or map of `column` begins and ends in its elements."""
    offsets = column.offsets.to_pylist()
    first = offsets[0]
    return pairwise([offset - first for offset in offsets])


def _value(column: pa.Array, place: int, texts: list[str]) -> Any:
    """Return the value at `place`, and add the texts of Unreadable values in it to `texts`."""
    import pyarrow as pa

    kind = column.type
    if not column[place].is_valid:  # whatever lies below it
        return None
    try:
        (value,) = _readable(column.slice(place, 1))
    except (OverflowError, ValueError):
        pass
    else:
        return value
    if pa.types.is_struct(kind):
        return {
            field.name: _value(column.field(number), place, texts)
            for number, field in enumerate(kind)
        }
    if pa.types.is_map(kind):
        inner = range(column.offsets[place].as_py(), column.offsets[place + 1].as_py())
        keys, items = (
            [_value(part, one, texts) for one in inner] for part in (column.keys, column.items)
        )
        return dict(zip(keys, items, strict=True))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        elements = column[place].values
        return [_value(elements, one, texts) for one in range(len(elements))]
    texts.append(_text(column, place))
    return Unreadable(texts[-1])


def _text(column: pa.Array, place: int) -> str:
    import pyarrow as pa

    try:
        return str(column.slice(place, 1).cast(pa.string())[0].as_py())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return f"a {column.type} with a time that Python cannot hold"
