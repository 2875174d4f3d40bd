"""Times as users write them, and as the server stores them: whole milliseconds. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from limiters._support.validation import UNSHOWN, ArgumentError, Seconds, seconds

Moment = datetime | int | float
"""A time: a datetime with a time zone, or epoch milliseconds."""

EARLIEST = 100_000_000_000  # 1973, in milliseconds; in seconds it is the year 5138
LATEST = 100_000_000_000_000
LONGEST = 10 * 365 * 86_400.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def when(at: object, delay: object) -> tuple[bool, int]:
    """Return whether the time is relative to the server's clock, and the time in milliseconds.

    It is rounded up, so that nothing is due early. Without `at` and `delay` it is now.

    >>> when(None, 0.2501)
    (True, 251)
    """
    check_one_of(at, delay)
    if at is None:
        return True, 0 if delay is None else milliseconds("delay", delay, zero=True)
    return False, epoch_ms("at", at)


def check_one_of(at: object, delay: object) -> None:
    """Refuse `at` and `delay` together, which would be ambiguous."""
    if at is not None and delay is not None:
        raise ArgumentError("delay", delay, "be left out if there is an at")


def epoch_ms(name: str, value: object) -> int:
    """Return a moment in epoch milliseconds. ArgumentError if it is in another unit."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ArgumentError(name, UNSHOWN, f"have a time zone, which {value!r} has not")
        return -((_EPOCH - value) // _MILLISECOND)
    is_odd = isinstance(value, float) and not math.isfinite(value)  # no float is as large as an int
    if isinstance(value, bool) or not isinstance(value, (int, float)) or is_odd:
        raise ArgumentError(name, value, "be a datetime or epoch milliseconds")
    if abs(value) < EARLIEST:
        raise ArgumentError(name, UNSHOWN, f"be in milliseconds, but {value!r} looks like seconds")
    if abs(value) >= LATEST:
        shown = f"{value!r}" if abs(value) < 1e30 else "so large a number"
        raise ArgumentError(
            name, UNSHOWN, f"be in milliseconds, but {shown} looks like micro- or nanoseconds"
        )
    return math.ceil(value)


def milliseconds(name: str, value: object, *, zero: bool = False) -> int:
    """Return a duration in milliseconds, rounded up."""
    number = seconds(name, value, zero=zero)
    if number > LONGEST:
        raise ArgumentError(name, value, "be at most ten years in seconds")
    return math.ceil(round(number * 1000, 6))


def lease_ms(value: Seconds) -> int:
    """Return the duration of a requested lease in milliseconds."""
    return max(1, milliseconds("for_", value))
