"""A gate in front of a sink, in which rows of subjects that are not registered wait.

Tasks share it through Redis with all other gates of its name. Rows that wait count as acknowledged,
so they may wait over many micro-batches. The process that registers their subject receives them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dispatcher.registration import RedisEntityStore, RegistrationGate
from dispatcher.spark._rows.formats import dicts
from limiters._support.validation import UNSHOWN, ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dispatcher.spark._rows.cutting import Unit
    from dispatcher.spark._rows.formats import Format

GateSource = RedisEntityStore | Callable[[], RegistrationGate]
"""The store of a gate with default bounds, or a function that makes a gate."""


class Gating:
    """The gate of one task."""

    def __init__(self, source: GateSource, rows: Format) -> None:
        self._gate = RegistrationGate(source) if isinstance(source, RedisEntityStore) else source()
        self._format = rows

    def holds(self, unit: Unit) -> bool:
        """Offer the rows of `unit` to the gate. Return whether all of them wait there. If the
        subject is registered in the meantime, the rows after that are left in the unit."""
        messages = [(str(unit.subject), _plain(row)) for row in dicts(unit.source.batch())]
        if self._gate.offer(*messages[0]):
            return False
        passing = sum(len(one.messages) for one in self._gate.offer_many(messages[1:]))
        if passing:
            unit.leave_last(passing, self._format)
        return not passing

    def close(self) -> None:
        self._gate.close()


def check_source(source: object) -> None:
    """Refuse a gate that tasks cannot share."""
    if isinstance(source, RegistrationGate):
        raise ArgumentError(
            "gate",
            UNSHOWN,
            "be a RedisEntityStore, or a function that makes a RegistrationGate where it is "
            "used: a gate itself cannot be sent to executors",
        )
    if not (isinstance(source, RedisEntityStore) or callable(source)):
        raise ArgumentError(
            "gate",
            source,
            "be a RedisEntityStore, or a function that makes a RegistrationGate with one",
        )


def check_rows(df: DataFrame) -> None:
    """Refuse rows with columns of types that a gate cannot keep."""
    from pyspark.sql import types

    kept = (
        types.StringType,
        types.BooleanType,
        types.IntegralType,
        types.FractionalType,
        types.BinaryType,
        types.TimestampType,
        types.TimestampNTZType,
        types.DateType,
        types.ArrayType,
        types.StructType,
    )
    for field in df.schema:
        if not isinstance(field.dataType, kept):
            raise ArgumentError(
                f"column {field.name!r}",
                field.dataType.simpleString(),
                "be of a type that a gate can keep",
                "cast it before, to a string",
            )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with its values converted to types that a gate keeps."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return _plain(value)
    if isinstance(value, list):
        return [_value(one) for one in value]
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.UTC) if value.tzinfo is not None else value
    if isinstance(value, (type(None), bool, int, float, str, bytes)):
        return value
    return str(value)  # a date, a decimal
