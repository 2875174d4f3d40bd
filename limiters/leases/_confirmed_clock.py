"""How far a server's clock may be by now, as far as exchanges with it confirm. Pure."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from limiters.leases._format import DRIFT, TOLERANCE_MS

MAX_EXCHANGES = 40
"""How many exchanges with the server are remembered, to confirm its clock."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange with a server."""

    server: str
    told: int
    """The coordinator's time in the reply."""
    sent: float
    took: float


class ConfirmedClock:
    """What the last exchanges say of it. Not thread-safe."""

    def __init__(self) -> None:
        self.exchanges: deque[Exchange] = deque(maxlen=MAX_EXCHANGES)

    def at(self, server: str, now: float, span: float) -> int:
        """How far the clock of `server` may be, by every exchange with it within the last `span`
        seconds; -1 if there was none."""
        known = [one for one in self.exchanges if one.server == server and now - one.sent <= span]
        if not known:
            return -1
        at = min(one.told + (now - one.sent) * 1000 * (1 + 2 * DRIFT) for one in known)
        return math.floor(at + max(TOLERANCE_MS, min(one.took for one in known) * 500))
