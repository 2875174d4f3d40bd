"""What a driver takes for the time of arrival."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol


class ArrivalClock(Protocol):
    """A present that a builder accepts as `now`, and that passes a second per second."""

    def now(self) -> Any:
        """The present: seconds, or a datetime."""
        ...


class EpochClock:
    """Seconds since 1970, as floats. It looks at the wall clock once, and then counts: it
    never steps when the wall clock is set, and still means something to the next process.

    Thread-safe.

    >>> clock = EpochClock()
    >>> 0 < clock.now() <= clock.now()
    True
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """The present, in seconds."""
        return self._offset + time.monotonic()


class UtcClock:
    """The same as aware datetimes, for a builder that closes batches by event time and whose
    event times are aware datetimes.

    Thread-safe.

    >>> UtcClock().now().tzinfo
    datetime.timezone.utc
    """

    def __init__(self) -> None:
        self._start = datetime.now(UTC)
        self._started = time.monotonic()

    def now(self) -> datetime:
        """The present, as a datetime in UTC."""
        return self._start + timedelta(seconds=time.monotonic() - self._started)
