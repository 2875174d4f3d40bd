"""Time, handed in rather than looked up, so that tests can turn it by hand."""

from __future__ import annotations

import time
from typing import Protocol

from limiters._support.validation import ArgumentError


class Clock(Protocol):
    """Seconds that only ever grow. Their zero means nothing."""

    def now(self) -> float:
        """The present, in seconds."""
        ...


class MonotonicClock:
    """The process's monotonic clock: the only one that counts inside a process.

    Thread-safe.

    >>> clock = MonotonicClock()
    >>> clock.now() <= clock.now()
    True
    """

    now = staticmethod(time.monotonic)


def clock_of(clock: Clock | None) -> Clock:
    """The `clock` that was given, or the process's own."""
    if clock is None:
        return MonotonicClock()
    if isinstance(clock, type) or not callable(getattr(clock, "now", None)):
        raise ArgumentError("clock", clock, "be an object whose now() returns seconds")
    return clock
