"""Estimate the server's time from its answers, and how far the wall clock deviates."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

logger = logging.getLogger("dispatcher.timeline")

NOTABLE = 1.0
"""Drift in seconds from which a warning is logged."""

_FORGET = 0.001
"""For each second of its age, a measurement counts as this much less precise: clocks run at
different rates."""


class ServerClock:
    """Estimates the server's time by the monotonic clock, which is never set, from the answer with
    the shortest round trip.

    `drift` is by how many seconds this machine's wall clock is ahead of the server's, `doubt` how
    far that may be wrong; None before the first answer. A drift of more than a second plus its
    doubt is logged as a warning, once, until it is gone. No decision depends on it. Thread-safe: of
    concurrent measurements any may be kept.
    """

    def __init__(
        self,
        where: str,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._where = where
        self._monotonic = monotonic
        self._wall = wall
        self._best: tuple[float, float, float] | None = None
        self._least = -math.inf
        self._warned = False
        self.drift: float | None = None
        self.doubt: float | None = None

    def learn(self, asked: float, answered: float, now_us: int) -> None:
        """Add a measurement: the server's time was `now_us` between two readings of the monotonic
        clock."""
        way = (answered - asked) / 2
        offset = now_us / 1e6 - (asked + way)
        self._least = now_us / 1e6 - answered
        if self._best is not None:
            known, doubt, at = self._best
            doubt += (answered - at) * _FORGET
            if way > doubt and abs(offset - known) <= way + doubt:
                return  # it agrees with the better measurement
        self._best = offset, way, answered
        wall = self._wall() - (self._monotonic() - answered)
        self.drift = wall - (offset + answered)
        self.doubt = way
        self._report(self.drift, way)

    def now_ms(self) -> float:
        """Return the estimated time of the server in milliseconds, never before that of its last
        answer: a message that was due then is due now."""
        now = self.monotonic()
        offset = self._best[0] if self._best is not None else self._wall() - now
        return (now + max(offset, self._least)) * 1000

    def monotonic(self) -> float:
        """This machine's monotonic clock, in seconds."""
        return self._monotonic()

    def _report(self, drift: float, doubt: float) -> None:
        notable = abs(drift) > NOTABLE + doubt
        if notable and not self._warned:
            logger.warning(
                "the clock of this machine is %s s %s that of Redis at %s; times that are given "
                "as such are off by that, delays and leases are not",
                f"{math.fabs(drift):.3f}",
                "ahead of" if drift > 0 else "behind",
                self._where,
                extra={"happening": "clock-drift", "drift": drift, "where": self._where},
            )
        self._warned = notable
