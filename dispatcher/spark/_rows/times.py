"""Converts columns of times to the datetimes, dates and timedeltas that Arrow itself would make."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_1970 = date(1970, 1, 1).toordinal()


def is_time(kind: pa.DataType) -> bool:
    """Whether `times_of` converts a column of this type: all times of Spark are counted in
    microseconds or days."""
    import pyarrow as pa

    types = pa.types
    if types.is_timestamp(kind) or types.is_duration(kind):
        return bool(kind.unit == "us")
    return bool(types.is_date32(kind))


def times_of(column: pa.Array) -> list[Any]:
    """Return the values; None for null. OverflowError or ValueError if Python cannot hold one.

    >>> import pyarrow as pa
    >>> times_of(pa.array([1, None], pa.duration("us")))
    [datetime.timedelta(microseconds=1), None]
    """
    if not column.null_count:
        return _without_nulls(column)
    known = iter(_without_nulls(column.drop_null()))
    return [next(known) if valid else None for valid in column.is_valid().to_pylist()]


def _without_nulls(column: pa.Array) -> list[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_date32(kind):
        days = column.cast(pa.int32()).to_numpy().astype("int64") + _1970
        return list(map(date.fromordinal, days.tolist()))
    spans: list[timedelta] = column.cast(pa.int64()).to_numpy().view("m8[us]").tolist()
    if pa.types.is_duration(kind):
        return spans
    if kind.tz is None:
        return list(map(datetime(1970, 1, 1).__add__, spans))
    zone = pa.lib.string_to_tzinfo(kind.tz)
    in_utc = map(datetime(1970, 1, 1, tzinfo=zone).__add__, spans)
    return list(map(zone.fromutc, in_utc))
