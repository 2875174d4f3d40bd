"""The columns of a stateful step as types of Arrow, checked once, before the query starts.

Times become whole numbers of microseconds, which are the same in every session time zone: pandas
would convert them to local time, which is set back once a year.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, types

from dispatcher.spark._usable_columns import NAMES_IN_STATE, TIMES_IN_STATE, usable
from limiters._support.validation import UNSHOWN, ArgumentError

Invalid = Literal["error", "drop"]
"""How rows are treated that have null or NaN where a value is needed."""

_PLAIN: dict[type[types.DataType], pa.DataType] = {
    types.NullType: pa.null(),
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.StringType: pa.string(),
    types.CharType: pa.string(),
    types.VarcharType: pa.string(),
    types.BinaryType: pa.binary(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", "UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
    types.DayTimeIntervalType: pa.duration("us"),
}
MICROSECONDS = 1_000_000
_WHOLE, _FLOAT = pa.int64(), pa.float64()


@dataclass(frozen=True)
class TimeColumn:
    """A column of times, with the unit of their numbers."""

    name: str
    type: pa.DataType

    @property
    def is_clock(self) -> bool:
        """Whether it holds timestamps; otherwise it holds plain numbers."""
        return bool(pa.types.is_timestamp(self.type))

    @property
    def is_whole(self) -> bool:
        """Whether its numbers are whole: microseconds, or the user's whole numbers."""
        return not pa.types.is_floating(self.type)

    @property
    def unit(self) -> int:
        """The size of the user's unit in its numbers: of a second for timestamps, otherwise 1."""
        return MICROSECONDS if self.is_clock else 1

    def numbers(self, column: pa.Array) -> np.ndarray[Any, Any]:
        """Return its values as numbers of 64 bits. No row may be null."""
        kind = _WHOLE if self.is_whole else _FLOAT
        if column.type != kind:
            column = column.cast(kind)
        return column.to_numpy()  # type: ignore[no-any-return]

    def column(self, numbers: Sequence[float]) -> pa.Array:
        """Return numbers as a column of times. A number beyond the type's range becomes its last
        value."""
        if not self.is_whole:
            return pa.array(numbers, pa.float64()).cast(self.type, safe=False)
        bits = 64 if self.is_clock else self.type.bit_width
        least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
        if numbers and (min(numbers) < least or max(numbers) > most):
            numbers = [min(max(one, least), most) for one in numbers]
        return pa.array(numbers, pa.int64()).cast(self.type)


def names(column: pa.Array) -> list[Any]:
    """Return the values of a column of names. No row may be null."""
    kind = column.type
    if pa.types.is_date(kind):
        return column.to_pylist()  # type: ignore[no-any-return]
    # Making an Arrow scalar for each value would take most of the time.
    return column.to_numpy(zero_copy_only=False).tolist()  # type: ignore[no-any-return]


def check_streaming(df: DataFrame) -> None:
    """Refuse a DataFrame that is not a stream."""
    if not df.isStreaming:
        raise ArgumentError(
            "df",
            UNSHOWN,
            "be a streaming DataFrame, of spark.readStream: only a stream has a state",
        )


def arrow_schema(schema: types.StructType) -> pa.Schema:
    """Return the Arrow schema in which rows are held. ArgumentError names a column that cannot be
    held."""
    names = schema.fieldNames()
    if twice := sorted({name for name in names if names.count(name) > 1}):
        requirement = f"have one column named {twice[0]!r}, not several"
        raise ArgumentError("df", UNSHOWN, requirement, "rename all but one")
    return pa.schema([(field.name, _arrow(field.name, field.dataType)) for field in schema])


def nullable(schema: types.StructType) -> types.StructType:
    """Return the same columns, each nullable, since rows from Python may be null."""
    return types.StructType([types.StructField(one.name, one.dataType) for one in schema])


def fingerprint(schema: pa.Schema) -> str:
    """Return a text that depends on the names, types and order of the columns."""
    text = "\n".join(f"{field.name}:{field.type}" for field in schema)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def canonical(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a record batch of Spark in `schema`, which may differ in the session's time zone and
    the width of strings."""
    if batch.schema.equals(schema):
        return batch
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def name_column(parameter: str, name: object, schema: types.StructType) -> str:
    """A column whose values name things: subjects, kinds of measurement."""
    return usable(parameter, name, schema, NAMES_IN_STATE).name


def time_column(parameter: str, name: object, schema: types.StructType) -> TimeColumn:
    """A column of times: timestamps, or plain numbers."""
    field = usable(parameter, name, schema, TIMES_IN_STATE)
    return TimeColumn(field.name, _PLAIN[type(field.dataType)])


def _arrow(name: str, kind: types.DataType) -> pa.DataType:
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, types.ArrayType):
        return pa.list_(pa.field("element", _arrow(name, kind.elementType)))
    if isinstance(kind, types.MapType):
        return pa.map_(_arrow(name, kind.keyType), _arrow(name, kind.valueType))
    if isinstance(kind, types.StructType):
        return pa.struct([(field.name, _arrow(name, field.dataType)) for field in kind])
    try:
        return _PLAIN[type(kind)]
    except KeyError:
        raise ArgumentError(
            f"column {name!r}",
            kind.simpleString(),
            "be of a type that can be kept in the state",
            "cast it to a string, or drop it before this step",
        ) from None
