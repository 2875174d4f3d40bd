"""A network that delays, loses and doubles messages, at random but reproducibly."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Network:
    """How bad it is. All of them are shares of the messages, or seconds."""

    delay: float = 0.001
    """The mean delay of a message, one way."""
    lost_requests: float = 0.0
    lost_replies: float = 0.0
    doubled: float = 0.0
    """Requests that arrive once more, late."""
    latest: float = 8.0
    """How much later a doubled one may arrive."""

    def one_way(self, random: Random) -> float:
        """The delay of one message."""
        return random.expovariate(1 / self.delay) if self.delay else 0.0
