"""Puts the rows of a DataFrame into the order in which they are sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions, types

from dispatcher.spark._rows.expressions import Expression
from dispatcher.spark._usable_columns import NAMES_TO_SEND, TIMES_TO_SEND, is_collated, usable
from limiters._support.validation import UNSHOWN, ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COST_COLUMN = "dispatcher_cost"
LANE_COLUMN = "dispatcher_lane"
HASH_COLUMN = "dispatcher_hash"

_NESTED = (types.StructType, types.ArrayType, types.MapType)
_ALL_FIELDS = {"ignoreNullFields": "false", "timeZone": "UTC"}
"""Options for nested values as JSON: with null fields, and the same text in every session."""

_KINDS_OF_TIME: dict[type[types.DataType], str] = {
    types.TimestampType: "timestamp",
    types.TimestampNTZType: "timestamp_ntz",
    types.DateType: "date",
}


def column_names(parameter: str, names: object) -> None:
    """Refuse a value that is not a list of names."""
    if not (isinstance(names, (list, tuple)) and all(isinstance(one, str) for one in names)):
        raise ArgumentError(parameter, names, "be a list of names of columns")


def column(name: str) -> Column:
    """Return the column called `name`, which may contain any character."""
    return functions.col("`" + name.replace("`", "``") + "`")


def identifying(df: DataFrame, given: Sequence[str] | None, *always: str) -> list[str]:
    """Return the columns that identify a row: those `given` and `always`, or all. ArgumentError if
    one is missing."""
    if given is None:
        return list(df.columns)
    for name in given:
        if name not in df.columns:
            there = ", ".join(df.columns)
            raise ArgumentError("identity", name, "name columns of df", f"there are {there}")
    return [*always, *given]


def time_kind(df: DataFrame, name: str) -> str:
    """Return the kind of time of the column `name`. ArgumentError if it is not a time."""
    return kind_of_time(df.schema, name)


def kind_of_time(schema: types.StructType, name: str) -> str:
    """Return the kind of time of the column `name` of `schema`. ArgumentError if it is not a
    time."""
    field = usable("time", name, schema, TIMES_TO_SEND)
    return _KINDS_OF_TIME.get(type(field.dataType), "number")


def check_names(df: DataFrame, parameter: str, name: str) -> None:
    """Refuse a column that cannot hold subjects or lanes."""
    usable(parameter, name, df.schema, NAMES_TO_SEND)


def with_costs(
    df: DataFrame, prices: Mapping[str, Any]
) -> tuple[DataFrame, dict[str, Expression], list[str]]:
    """Return `df` with a column for each of `prices`, which are SQL expressions or Columns, the
    expressions that read these columns by dimension, and the names of the columns. ArgumentError if
    one is not a number."""
    if not prices:
        return df, {}, []
    columns = {
        dimension: functions.expr(price) if isinstance(price, str) else price
        for dimension, price in prices.items()
    }
    names = {dimension: _cost_column(number) for number, dimension in enumerate(columns)}
    found = df.select(*(columns[dimension].alias(name) for dimension, name in names.items())).schema
    for dimension, field in zip(names, found, strict=True):
        kind = field.dataType
        if not isinstance(kind, (types.NumericType, types.NullType)):
            (named,) = df.select(columns[dimension]).columns
            raise ArgumentError(
                f"cost[{dimension!r}]" if dimension else "cost",
                UNSHOWN,
                "be a number",
                f"{named} is a {kind.simpleString()}. {_as_number(named, kind)}",
            )
        df = with_own_column(df, names[dimension], columns[dimension].cast("double"))
    costs = {dimension: Expression.column(name) for dimension, name in names.items()}
    return df, costs, list(names.values())


def _as_number(named: str, kind: types.DataType) -> str:
    """Return how a user makes a number of the column `named`."""
    if isinstance(kind, (types.StringType, types.BooleanType)):
        return f"Cast it: 'cast({named} as double)'"
    if isinstance(kind, (types.ArrayType, types.MapType)):
        return f"Give an expression that is one, such as 'size({named})'"
    return "Give an expression that is one"


def _cost_column(number: int) -> str:
    return f"{COST_COLUMN}_{number}" if number else COST_COLUMN


def with_own_column(df: DataFrame, name: str, value: Column) -> DataFrame:
    """Return `df` with a column that no handler will see. ArgumentError if `df` already has a
    column of that name: it would be lost."""
    # Spark treats names that differ in case only as the same.
    for taken in df.columns:
        if taken.lower() == name:
            raise ArgumentError(
                "df",
                UNSHOWN,
                f"have no column {taken!r}, which this sink adds itself for a while",
                f"give yours another name, df.withColumnRenamed({taken!r}, ...)",
            )
    return df.withColumn(name, value)


def hash_column(df: DataFrame, identity: list[str]) -> DataFrame:
    """Return `df` with a column of hashes of the columns `identity`."""
    fields = _in_order_of_names(df, identity)
    ties = [_tie(field) for field in fields]
    # A hash leaves out null, so two rows that differ only in where null is would have the same
    # hash. The same holds within a nested column, where the hash also does not depend on the array
    # that an element is in. The text of the column does.
    nulls = [functions.isnull(tie) for tie in ties]
    texts = [
        functions.to_json(column(field.name), _ALL_FIELDS)
        for field in fields
        if isinstance(field.dataType, _NESTED)
    ]
    return with_own_column(df, HASH_COLUMN, functions.xxhash64(*ties, *nulls, *texts))


def in_order(
    df: DataFrame, first: list[Column], parts: int, by: Column | None, identity: list[str]
) -> DataFrame:
    """Return `df` in `parts`, with rows of one `by` in one part. Each part is sorted by `first`,
    then by the columns `identity`, so that a replay has the same order. Columns that cannot be
    compared are sorted as texts."""
    spread = df.repartition(parts, by) if by is not None else df.repartition(1)
    return spread.sortWithinPartitions(*first, *_ties(df, identity))


def parallelism(df: DataFrame) -> int:
    """Return in how many parts rows are sent by default."""
    session: Any = df.sparkSession
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Connect has none
        return int(session.conf.get("spark.sql.shuffle.partitions"))


def _ties(df: DataFrame, identity: list[str]) -> list[Column]:
    return [_tie(field) for field in _in_order_of_names(df, identity)]


def _in_order_of_names(df: DataFrame, identity: list[str]) -> list[types.StructField]:
    """Return the columns `identity` sorted by name, so that their order in `df` does not matter."""
    fields = sorted(df.schema, key=lambda field: field.name)
    return [field for field in fields if field.name in identity]


def _tie(field: types.StructField) -> Column:
    if is_collated(field.dataType):
        return column(field.name).cast("binary")
    if _can_be_sorted(field.dataType):
        return column(field.name)
    return column(field.name).cast("string")


def _can_be_sorted(kind: types.DataType) -> bool:
    if isinstance(kind, types.StructType):
        return all(_can_be_sorted(field.dataType) for field in kind)
    if isinstance(kind, types.ArrayType):
        return _can_be_sorted(kind.elementType)
    return isinstance(kind, (*NAMES_TO_SEND.types, *TIMES_TO_SEND.types)) and not is_collated(kind)
