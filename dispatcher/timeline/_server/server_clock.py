"""What time it is on the server, reckoned from its answers; and how far the wall clock is off."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

logger = logging.getLogger("dispatcher.timeline")

NOTABLE = 1.0
"""Seconds from which on a drift is worth a warning."""

_FORGET = 0.001
"""How much worse an old measurement counts for each second of its age: clocks do not run alike."""


class ServerClock:
    """Reckons with the monotonic clock, which nobody sets, from the answer that took least time.

    `drift` is by how many seconds this machine's wall clock is ahead of the server's, `doubt` how
    far that may be wrong, None before the first answer. A drift of more than a second and its
    doubt is logged as a warning, once, until it is gone. Nothing is decided by it. Thread-safe:
    whoever writes last is as good.
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
        """The server said that it is `now_us`, between two readings of the monotonic clock."""
        way = (answered - asked) / 2
        offset = now_us / 1e6 - (asked + way)
        self._least = now_us / 1e6 - answered
        if self._best is not None:
            known, doubt, at = self._best
            doubt += (answered - at) * _FORGET
            if way > doubt and abs(offset - known) <= way + doubt:
                return  # it agrees with what is known better
        self._best = offset, way, answered
        wall = self._wall() - (self._monotonic() - answered)
        self.drift = wall - (offset + answered)
        self.doubt = way
        self._report(self.drift, way)

    def now_ms(self) -> float:
        """The server's time in milliseconds, as far as is known; never before that of its last
        answer: what was due then is due now."""
        now = self.monotonic()
        offset = self._best[0] if self._best is not None else self._wall() - now
        return (now + max(offset, self._least)) * 1000

    def monotonic(self) -> float:
        """This machine's clock that is never set, in seconds."""
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
