"""The types of columns that sinks and stateful steps can use as subjects, times and numbers."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types

from limiters._support.validation import ArgumentError

WHOLE_NUMBERS = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
FLOATS = (types.FloatType, types.DoubleType)
CLOCKS = (types.TimestampType, types.TimestampNTZType)


@dataclass(frozen=True)
class Use:
    """A use of a column: the types that can serve, and how a user makes a column of such a type."""

    types: tuple[type[types.DataType], ...]
    description: str
    cast: str


NAMES_IN_STATE = Use(
    (
        types.StringType,
        types.BinaryType,
        types.BooleanType,
        types.DateType,
        *WHOLE_NUMBERS,
    ),
    "a text, a whole number, a boolean, a date or binary, so that equal ones are the same for sure",
    "cast({} as string)",
)
"""Columns of names by which a state is kept."""

NAMES_TO_SEND = Use(
    (*NAMES_IN_STATE.types, types.TimestampType, types.DecimalType),
    "a text, a whole number, a boolean, a date, a timestamp, a decimal or binary, so that equal "
    "ones are the same for sure",
    NAMES_IN_STATE.cast,
)
"""Columns of names, such as subjects, whose rows a sink sends in order."""

TIMES_IN_STATE = Use(
    (*CLOCKS, *WHOLE_NUMBERS, *FLOATS), "a timestamp or a number, no decimal", "to_timestamp({})"
)
"""Columns of times to which a stateful step adds spans."""

TIMES_TO_SEND = Use(
    (*TIMES_IN_STATE.types, types.DateType),
    "a timestamp, a date or a number, no decimal",
    TIMES_IN_STATE.cast,
)
"""Columns of times by which a sink sorts."""

NUMBERS = Use((types.NumericType,), "a number", "cast({} as double)")
"""Columns of amounts, such as costs."""


def column_name(parameter: str, name: object) -> None:
    """Refuse a value that cannot be the name of a column."""
    if not (isinstance(name, str) and name):
        raise ArgumentError(parameter, name, "be the name of a column")


def usable(parameter: str, name: object, schema: types.StructType, use: Use) -> types.StructField:
    """Return the column called `name`. ArgumentError if there is none, or its type does not fit
    `use`."""
    column_name(parameter, name)
    for field in schema:
        if field.name == name:
            break
    else:
        there = ", ".join(schema.fieldNames())
        raise ArgumentError(parameter, name, "be a column of the DataFrame", f"it has {there}")
    kind = field.dataType.simpleString()
    if is_collated(field.dataType):
        raise ArgumentError(
            parameter,
            name,
            "be a column of texts that are compared as they are",
            f"it is a {kind}, in which texts that differ are the same. Say which one is meant: "
            f"df.withColumn({name!r}, expr('lower({name}) collate utf8_binary'))",
        )
    if not isinstance(field.dataType, use.types):
        raise ArgumentError(
            parameter,
            name,
            f"be a column that is {use.description}",
            f"it is a {kind}. Cast it before: "
            f"df.withColumn({name!r}, expr({use.cast.format(name)!r}))",
        )
    return field


def is_collated(kind: types.DataType) -> bool:
    """Whether texts of this type may be equal although they differ. Spark 3.5 has no such type."""
    return isinstance(kind, types.StringType) and kind.simpleString() != "string"


def check_values(schema: types.StructType) -> None:
    """Refuse columns for whose values pyarrow has no type."""
    for field in schema:
        if _holds(field.dataType, types.YearMonthIntervalType):
            raise ArgumentError(
                f"column {field.name!r}",
                field.dataType.simpleString(),
                "be of a type that Python can be given",
                "cast it before, to a string or to a number of months",
            )


def _holds(kind: types.DataType, wanted: type[types.DataType]) -> bool:
    if isinstance(kind, types.StructType):
        return any(_holds(field.dataType, wanted) for field in kind)
    if isinstance(kind, types.ArrayType):
        return _holds(kind.elementType, wanted)
    if isinstance(kind, types.MapType):
        return _holds(kind.keyType, wanted) or _holds(kind.valueType, wanted)
    return isinstance(kind, wanted)
