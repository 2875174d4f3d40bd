"""Read a field of a measurement, by a name or by a function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter, itemgetter, methodcaller
from typing import Any

from dispatcher.builders.errors import MeasurementError
from limiters._support.validation import ArgumentError

Where = str | Callable[[Any], Any]
"""A callable that takes the measurement, or the name of an item or attribute of it."""

_ABSENT = (KeyError, AttributeError, IndexError, TypeError)


class MeasurementField:
    """A field, with the name of the parameter that locates it.

    By a name, a mapping is asked for the item; any other object for the attribute, then for the
    item. With `default`, a missing field is None; otherwise it is an error.

    >>> MeasurementField("subject", "id").of({"id": "meter-1"})
    'meter-1'
    """

    def __init__(self, parameter: str, where: object, *, default: bool = False) -> None:
        if not callable(where) and not (isinstance(where, str) and where):
            raise ArgumentError(
                parameter, where, "be a callable, or the name of an item or attribute"
            )
        self.parameter = parameter
        self._where = where
        self._default = default
        self.of: Callable[[Any], Any] = where if callable(where) else self._look_up
        """Returns the value in a measurement. Errors are not translated."""

    def value(self, measurement: object) -> Any:
        """Return the value in a measurement. MeasurementError if it cannot be read."""
        try:
            return self.of(measurement)
        except Exception as error:
            raise self._missing(measurement, error) from error

    def values(self, measurements: Sequence[object]) -> list[Any]:
        """Return the value in each measurement. MeasurementError for the first where it cannot be
        read."""
        values: list[Any] = []
        try:
            # The values read before an error stay in the list: their number is the position of the
            # error.
            values.extend(map(self._quickest(measurements), measurements))
        except Exception as error:
            raise self._missing(measurements[len(values)], error) from error
        return values

    def _quickest(self, measurements: Sequence[object]) -> Callable[[Any], Any]:
        """Return a function in C that reads a field by name from measurements of one type, if there
        is one."""
        name = self._where
        if not isinstance(name, str):
            return self.of
        kinds = set(map(type, measurements))
        if kinds == {dict}:
            return methodcaller("get", name) if self._default else itemgetter(name)
        if len(kinds) != 1 or issubclass(kinds.pop(), Mapping) or self._default:
            return self.of
        if "." in name or not hasattr(measurements[0], name):
            return self.of
        return attrgetter(name)

    def _look_up(self, measurement: Any) -> Any:
        name: Any = self._where
        try:
            if isinstance(measurement, Mapping):
                return measurement[name]
            if hasattr(measurement, name):
                return getattr(measurement, name)
            return measurement[name]
        except _ABSENT as error:
            if self._default:
                return None
            if isinstance(error, TypeError):
                raise AttributeError(name) from None
            raise

    def _missing(self, measurement: object, error: Exception) -> MeasurementError:
        if isinstance(self._where, str):
            return MeasurementError(measurement, f"it has no {self.parameter}: no {self._where!r}")
        return MeasurementError(
            measurement, f"{self.parameter} raised {type(error).__name__}: {error}"
        )


def check_hashable(field: MeasurementField, measurement: object, value: Hashable) -> None:
    """Refuse a `value` that has no hash to compare it by."""
    try:
        hash(value)
    except TypeError:
        raise MeasurementError(
            measurement, f"its {field.parameter} must be hashable, not {value!r}"
        ) from None
