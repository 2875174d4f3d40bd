"""Times in the users' types: integers, floats, datetimes; and spans between them.

Integers and floats compare exactly with one another, and so may be mixed. Aware datetimes are
converted to UTC: Python compares two of one time zone by their wall-clock time, which goes back
once a year. Values that cannot be ordered are refused: NaN, infinities, naive datetimes together
with aware ones.
"""

from __future__ import annotations

import enum
import math
import operator
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from limiters._support.validation import ArgumentError

Instant: TypeAlias = Any
"""A point in time: a number (int or float) or a datetime, as the user's times are. A union of the
two would have every user's arithmetic refused by type checkers."""

LARGEST = sys.float_info.max
_WHOLE = 2**52
"""The least float from which on every float is an integer."""


class TimeKind(enum.Enum):
    """Kinds of times; times of one kind can be compared."""

    NUMBER = "numbers"
    NAIVE = "naive datetimes"
    AWARE = "aware datetimes"


def read(value: Any) -> tuple[Instant, TimeKind]:
    """Return `value` in a form that can be compared, and its kind. ArgumentError if it is not a
    time."""
    if value.__class__ is float or value.__class__ is int:
        # NaN and the infinities fail here, and integers that are too large for a float.
        if -LARGEST <= value <= LARGEST:
            return value, TimeKind.NUMBER
        raise ArgumentError("time", value, "be finite")
    if isinstance(value, datetime):
        return _read_datetime(value)
    if isinstance(value, bool):
        raise ArgumentError("time", value, "be a number or a datetime")
    if isinstance(value, float):
        return read(float(value))
    try:
        return read(operator.index(value))  # numpy's whole numbers
    except TypeError:
        raise ArgumentError("time", value, "be a number or a datetime") from None


def read_all(values: Sequence[Any]) -> tuple[Sequence[Instant], TimeKind] | None:
    """Read many times at the speed of C; None if one of them has to be read by `read`."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        if float not in kinds or all(map(math.isfinite, values)):
            return values, TimeKind.NUMBER
    elif kinds == {datetime}:
        zones = set(map(operator.attrgetter("tzinfo"), values))
        if zones == {None}:
            return values, TimeKind.NAIVE
        if zones == {UTC}:
            return values, TimeKind.AWARE
    return None


def mixed(kind: TimeKind, known: TimeKind | None) -> str | None:
    """Return what is wrong with a time of `kind` if the earlier ones are of the kind `known`."""
    if known is None or kind is known:
        return None
    return f"cannot be compared with the others: {kind.value} after {known.value}"


class TimeSpan:
    """A length of time, to be added to instants. A result beyond the range of datetimes is the
    latest datetime.

    >>> TimeSpan(50).after(100)
    150
    """

    def __init__(self, seconds: float | timedelta) -> None:
        if isinstance(seconds, timedelta):
            self.delta = seconds
            seconds = seconds.total_seconds()
        else:
            self.delta = _as_delta(seconds)
        # So that integers stay integers, however large.
        self.seconds = int(seconds) if float(seconds).is_integer() else seconds

    def after(self, instant: Any) -> Any:
        """Return the instant this much later."""
        if instant.__class__ is float or (instant.__class__ is int and -_WHOLE < instant < _WHOLE):
            return instant + self.seconds
        if isinstance(instant, datetime):
            try:
                return instant + self.delta
            except OverflowError:
                return datetime.max.replace(tzinfo=instant.tzinfo)
        return _plus(instant, self.seconds)

    def before(self, instant: Any) -> Any:
        """Return the instant this much earlier."""
        if isinstance(instant, datetime):
            try:
                return instant - self.delta
            except OverflowError:
                return datetime.min.replace(tzinfo=instant.tzinfo)
        return -_plus(-instant, self.seconds)


def middle(early: Any, late: Any) -> Any:
    """Return the least instant that is not before the middle of the two; later than `early`."""
    if isinstance(early, datetime):
        return early - (early - late) // 2
    if isinstance(early, int) and isinstance(late, int) and abs(early) + abs(late) >= _WHOLE:
        return -((-early - late) // 2)
    half = (early + late) / 2
    if math.isinf(half):
        half = early / 2 + late / 2
    # Between two neighbours there is no float.
    return half if early < half <= late else late


def seconds_between(early: Any, late: Any) -> float:
    """Return the seconds from `early` to `late`."""
    apart = late - early
    return float(apart.total_seconds() if isinstance(apart, timedelta) else apart)


def _plus(instant: Any, seconds: float) -> Any:
    if -_WHOLE < instant < _WHOLE or instant.__class__ is float:
        return instant + seconds
    # Only integers are in this range: nothing is lost, where a float would round.
    return instant + math.floor(seconds)


def _as_delta(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        return timedelta.max


def plain(value: datetime) -> datetime:
    """Convert a datetime of a subclass, such as pandas' Timestamp, to a datetime. ArgumentError if
    it is finer than microseconds."""
    if getattr(value, "nanosecond", 0):
        raise ArgumentError("time", value, "be a whole number of microseconds", "round it")
    day = (value.year, value.month, value.day)
    time = (value.hour, value.minute, value.second, value.microsecond)
    return datetime(*day, *time, value.tzinfo, fold=value.fold)


def _read_datetime(value: datetime) -> tuple[Instant, TimeKind]:
    if value != value:  # pandas' NaT is a datetime that is not equal to itself
        raise ArgumentError("time", value, "be a time")
    if value.__class__ is not datetime:
        value = plain(value)
    if value.tzinfo is None or value.utcoffset() is None:
        return value, TimeKind.NAIVE
    if value.tzinfo is UTC:
        return value, TimeKind.AWARE
    try:
        return value.astimezone(UTC), TimeKind.AWARE
    except OverflowError:
        raise ArgumentError("time", value, "lie within the years of UTC") from None
