"""Time, handed in rather than looked up, so that tests can turn it by hand."""

from __future__ import annotations

import time
from typing import Protocol


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
