"""Times as users have them: whole numbers, floats, datetimes; and spans between them.

Numbers of both kinds compare exactly with one another, and so may be mixed. Aware datetimes
are turned to UTC: two of one time zone are otherwise compared by what their clocks show, which
goes back once a year. Anything that cannot be ordered is refused: NaN, infinities, naive
datetimes beside aware ones.
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
"""A point in time: a number (int or float) or a datetime, whichever the user's times are. A
union of the two would have every user's arithmetic refused by type checkers."""

LARGEST = sys.float_info.max
_WHOLE = 2**52
"""From here on every float is a whole number."""


class TimeKind(enum.Enum):
    """Times of one kind can be compared."""

    NUMBER = "numbers"
    NAIVE = "naive datetimes"
    AWARE = "aware datetimes"


def read(value: Any) -> tuple[Instant, TimeKind]:
    """`value` as it is compared, and its kind. ArgumentError of a `time` if it is none."""
    if value.__class__ is float or value.__class__ is int:
        # NaN and the infinities fail here, and whole numbers that no float can meet.
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
    """The same for many at the speed of C; None if one of them needs a closer look."""
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
    """What is wrong with a time of `kind` beside those of the kind known so far."""
    if known is None or kind is known:
        return None
    return f"cannot be compared with the others: {kind.value} beside {known.value}"


class TimeSpan:
    """A length of time, to be added to instants. What would be later than any is the latest.

    >>> TimeSpan(50).after(100)
    150
    """

    def __init__(self, seconds: float | timedelta) -> None:
        if isinstance(seconds, timedelta):
            self.delta = seconds
            seconds = seconds.total_seconds()
        else:
            self.delta = _as_delta(seconds)
        # So that whole numbers stay whole, however large.
        self.seconds = int(seconds) if float(seconds).is_integer() else seconds

    def after(self, instant: Any) -> Any:
        """The instant this much later."""
        if instant.__class__ is float or (instant.__class__ is int and -_WHOLE < instant < _WHOLE):
            return instant + self.seconds
        if isinstance(instant, datetime):
            try:
                return instant + self.delta
            except OverflowError:
                return datetime.max.replace(tzinfo=instant.tzinfo)
        return _plus(instant, self.seconds)

    def before(self, instant: Any) -> Any:
        """The instant this much earlier."""
        if isinstance(instant, datetime):
            try:
                return instant - self.delta
            except OverflowError:
                return datetime.min.replace(tzinfo=instant.tzinfo)
        return -_plus(-instant, self.seconds)


def middle(early: Any, late: Any) -> Any:
    """The least instant that is not before the middle of the two; later than `early`."""
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
    """How long it is from `early` to `late`."""
    apart = late - early
    return float(apart.total_seconds() if isinstance(apart, timedelta) else apart)


def _plus(instant: Any, seconds: float) -> Any:
    if -_WHOLE < instant < _WHOLE or instant.__class__ is float:
        return instant + seconds
    # Only whole numbers lie there: nothing is lost, where a float would round.
    return instant + math.floor(seconds)


def _as_delta(seconds: float) -> timedelta:
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        return timedelta.max


def plain(value: datetime) -> datetime:
    """A datetime of a subclass, such as pandas' Timestamp, as a datetime. ArgumentError of
    a `time` if it is finer than datetimes are."""
    if getattr(value, "nanosecond", 0):
        raise ArgumentError("time", value, "be a whole number of microseconds", "round it")
    day = (value.year, value.month, value.day)
    time = (value.hour, value.minute, value.second, value.microsecond)
    return datetime(*day, *time, value.tzinfo, fold=value.fold)


def _read_datetime(value: datetime) -> tuple[Instant, TimeKind]:
    if value != value:  # pandas' NaT is a datetime that is not even itself
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
