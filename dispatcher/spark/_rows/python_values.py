"""Values of Arrow as values of Python: maps as dicts, wherever they are, and what Python cannot
hold found and named."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[[Any], Any]


class Unreadable(str):
    """The text of a value that Python has no object for, such as a day after the year 9999."""

    __slots__ = ()


def values_of(column: pa.Array) -> tuple[list[Any], dict[int, str]]:
    """The values of `column`; and by their places, the texts of those that Python cannot hold. Such
    a text, an Unreadable, stands in place of the value, also inside of others.

    >>> import pyarrow as pa
    >>> values_of(pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())))
    ([{'a': 1}, None], {})
    >>> values_of(pa.array([0, 5_000_000], pa.date32()))
    ([datetime.date(1970, 1, 1), '15659-07-15'], {1: '15659-07-15'})
    """
    unreadable: dict[int, str] = {}
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        values = []
        for place in range(len(column)):
            texts: list[str] = []
            values.append(_value(column, place, texts))
            if texts:
                unreadable[place] = texts[0]
    convert = _conversion(column.type)
    if convert is not None:
        values = [_converted(value, convert) for value in values]
    return values, unreadable


def _value(column: pa.Array, place: int, texts: list[str]) -> Any:
    """The value at `place`; the texts of what is Unreadable in it are added to `texts`."""
    import pyarrow as pa

    kind = column.type
    try:
        return column[place].as_py()
    except (OverflowError, ValueError):
        pass
    if pa.types.is_struct(kind):
        return {
            field.name: _value(column.field(number), place, texts)
            for number, field in enumerate(kind)
        }
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        inner = column[place].values
        found = [_value(inner, one, texts) for one in range(len(inner))]
        return [tuple(one.values()) for one in found] if pa.types.is_map(kind) else found
    texts.append(_text(column, place))
    return Unreadable(texts[-1])


def _text(column: pa.Array, place: int) -> str:
    import pyarrow as pa

    try:
        return str(column.slice(place, 1).cast(pa.string())[0].as_py())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return f"a {column.type} with a time that Python cannot hold"


def _converted(value: Any, convert: Convert) -> Any:
    return value if value is None or isinstance(value, Unreadable) else convert(value)


def _conversion(kind: pa.DataType) -> Convert | None:
    """What makes of a value of `kind` one with dicts for maps. None: it has no maps."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        return _map_conversion(_conversion(kind.key_type), _conversion(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _conversion(kind.value_type)
        if element is None:
            return None
        return lambda values: [_converted(value, element) for value in values]
    if pa.types.is_struct(kind):
        return _struct_conversion(kind)
    return None


def _map_conversion(key: Convert | None, item: Convert | None) -> Convert:
    if key is None and item is None:
        return dict
    key, item = key or _same, item or _same
    return lambda pairs: {_converted(k, key): _converted(v, item) for k, v in pairs}


def _struct_conversion(kind: pa.StructType) -> Convert | None:
    found = {field.name: _conversion(field.type) for field in kind}
    fields = {name: convert for name, convert in found.items() if convert is not None}
    if not fields:
        return None
    return lambda value: {
        name: _converted(one, fields[name]) if name in fields else one
        for name, one in value.items()
    }


def _same(value: Any) -> Any:
    return value
