"""A network that delays, loses and doubles messages, at random but reproducibly."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Network:
    """The faults of a network: parts of all messages, or seconds."""

    delay: float = 0.001
    """The mean delay of a message, one way."""
    lost_requests: float = 0.0
    lost_replies: float = 0.0
    doubled: float = 0.0
    """Requests that arrive a second time, up to `latest` later."""
    late: float = 0.0
    """Messages that take up to `latest`."""
    latest: float = 8.0
    astray: float = 0.0
    """Requests that reach another server than the one in charge."""

    def one_way(self, random: Random) -> float:
        """Return the delay of one message in seconds."""
        if self.late and random.random() < self.late:
            return random.uniform(0, self.latest)
        return random.expovariate(1 / self.delay) if self.delay else 0.0
