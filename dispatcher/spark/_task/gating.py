"""In front of a sink: rows of subjects that are not registered wait, over micro-batches.

They wait in the gate, which all tasks share through Redis with everybody else who has one of its
name, and count as acknowledged. Whoever is told the registration is handed what waited.
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
"""The store of a gate with its default bounds, or what makes a gate."""


class Gating:
    """A task's gate."""

    def __init__(self, source: GateSource, rows: Format) -> None:
        self._gate = RegistrationGate(source) if isinstance(source, RedisEntityStore) else source()
        self._format = rows

    def holds(self, unit: Unit) -> bool:
        """Whether all of `unit` waits from now on. Of one whose subject is registered meanwhile,
        what comes after that is left in the unit."""
        messages = [(str(unit.subject), _plain(row)) for row in dicts(unit.source.batch())]
        if self._gate.offer(*messages[0]):
            return False
        passing = sum(len(one.messages) for one in self._gate.offer_many(messages[1:]))
        if passing:
            unit.leave_last(passing, self._format)
        return not passing

    def close(self) -> None:
        """Closes the gate."""
        self._gate.close()


def check_source(source: object) -> None:
    """Refuses what is no gate that tasks can share."""
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
    """Refuses rows that cannot wait: what is not among what a gate keeps."""
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
    """The same, of values that a gate keeps."""
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
