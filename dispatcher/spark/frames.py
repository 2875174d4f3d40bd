"""What a DataFrame must have for its rows to be sent in order, and how they are put in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions, types

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

COST_COLUMN = "dispatcher_cost"
LANE_COLUMN = "dispatcher_lane"

_NUMBERS = (
    types.ByteType,
    types.ShortType,
    types.IntegerType,
    types.LongType,
    types.FloatType,
    types.DoubleType,
)
_TIMES: dict[type[types.DataType], str] = {
    types.TimestampType: "timestamp",
    types.TimestampNTZType: "timestamp_ntz",
    types.DateType: "date",
} | dict.fromkeys(_NUMBERS, "number")
_NAMES = (
    types.StringType,
    types.ByteType,
    types.ShortType,
    types.IntegerType,
    types.LongType,
    types.BooleanType,
    types.DateType,
    types.TimestampType,
    types.DecimalType,
    types.BinaryType,
)


def column(name: str) -> Column:
    """The column called `name`, whatever is in that name."""
    return functions.col("`" + name.replace("`", "``") + "`")


def time_kind(df: DataFrame, name: str) -> str:
    """What kind of time the column `name` is. ValueError if it is none."""
    kind = _kind(df, "time", name)
    for type_, named in _TIMES.items():
        if isinstance(kind, type_):
            return named
    raise ValueError(
        f"time={name!r} is a {kind.simpleString()}: it must be a timestamp, a date or a number. "
        f"Cast it before: df.withColumn({name!r}, to_timestamp({name!r}))"
    )


def check_names(df: DataFrame, parameter: str, name: str) -> None:
    """Refuses a column that cannot say whose a row is."""
    kind = _kind(df, parameter, name)
    if not isinstance(kind, _NAMES):
        raise ValueError(
            f"{parameter}={name!r} is a {kind.simpleString()}: it must be a text, a whole number, "
            "a date, a timestamp, a decimal or binary, so that equal ones are the same for sure"
        )


def cost_column(df: DataFrame, cost: Any) -> DataFrame:
    """`df` with what each row costs, which `cost`, an expression or a Column, says."""
    expression = functions.expr(cost) if isinstance(cost, str) else cost
    return df.withColumn(COST_COLUMN, expression.cast("double"))


def in_order(df: DataFrame, first: list[Column], parts: int, by: Column | None) -> DataFrame:
    """`df` in `parts`, those of one `by` together, each sorted by `first`, then by everything
    else that can be compared: so that a replay has the same order."""
    spread = df.repartition(parts, by) if by is not None else df.repartition(1)
    ties = [column(field.name) for field in df.schema if _can_be_sorted(field.dataType)]
    return spread.sortWithinPartitions(*first, *ties)


def parallelism(df: DataFrame) -> int:
    """In how many parts rows are sent, unless the user says it."""
    session: Any = df.sparkSession
    try:
        return int(session.sparkContext.defaultParallelism)
    except Exception:  # Connect has none
        return int(session.conf.get("spark.sql.shuffle.partitions"))


def _kind(df: DataFrame, parameter: str, name: str) -> types.DataType:
    for field in df.schema:
        if field.name == name:
            return field.dataType
    raise ValueError(
        f"{parameter}={name!r} is not a column of the DataFrame; it has {', '.join(df.columns)}"
    )


def _can_be_sorted(kind: types.DataType) -> bool:
    if isinstance(kind, types.StructType):
        return all(_can_be_sorted(field.dataType) for field in kind)
    if isinstance(kind, types.ArrayType):
        return _can_be_sorted(kind.elementType)
    return isinstance(kind, (*_NAMES, *_TIMES))
