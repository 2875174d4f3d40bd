"""Time that is passed in rather than looked up, so that tests can set it."""

from __future__ import annotations

import time
from typing import Protocol

from limiters._support.validation import ArgumentError


class Clock(Protocol):
    """Seconds that only ever grow. Their zero means nothing."""

    def now(self) -> float:
        """Return the present time in seconds."""
        ...


def _boot_time() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class MonotonicClock:
    """A clock that only grows. On Linux it also grows while the machine is suspended: a lease has
    to end in time when a laptop or a virtual machine wakes up.

    Thread-safe.

    >>> clock = MonotonicClock()
    >>> clock.now() <= clock.now()
    True
    """

    now = staticmethod(_boot_time if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic)


def clock_of(clock: Clock | None) -> Clock:
    """Return the `clock` that was given, or the process's own."""
    if clock is None:
        return MonotonicClock()
    if isinstance(clock, type) or not callable(getattr(clock, "now", None)):
        raise ArgumentError("clock", clock, "be an object whose now() returns seconds")
    return clock
