"""Clocks that give messages their time of arrival."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol


class ArrivalClock(Protocol):
    """A clock that a builder accepts as `now`, and that advances one second per second."""

    def now(self) -> Any:
        """Return the present, in seconds or as a datetime."""
        ...


class EpochClock:
    """Seconds since 1970, as floats. The wall clock is read once; from then on a monotonic clock
    counts. So the time never steps when the wall clock is set, and still has a meaning in the next
    process.

    Thread-safe.

    >>> clock = EpochClock()
    >>> 0 < clock.now() <= clock.now()
    True
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the present, in seconds."""
        return self._offset + time.monotonic()


class UtcClock:
    """Like EpochClock, but returns aware datetimes: for a builder that closes batches by event
    times that are aware datetimes.

    Thread-safe.

    >>> UtcClock().now().tzinfo
    datetime.timezone.utc
    """

    def __init__(self) -> None:
        self._start = datetime.now(UTC)
        self._started = time.monotonic()

    def now(self) -> datetime:
        """Return the present, as a datetime in UTC."""
        return self._start + timedelta(seconds=time.monotonic() - self._started)
