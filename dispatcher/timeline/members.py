"""Who consumes a topic, and whose the buckets are: without a broker, by what all of them see."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dispatcher.timeline import ids
from dispatcher.timeline.server import JOIN
from dispatcher.timeline.topic import Topic

COUNTS_FOR_MS = 3_000
"""For how long a consumer counts that is not heard of."""

HEARTBEAT_MS = COUNTS_FOR_MS / 3


def share(members: Sequence[str], consumer: str, buckets: int) -> list[int]:
    """The buckets that are `consumer`'s: whoever computes it for the same members gets shares
    that are all buckets together, overlap nowhere, and differ by one bucket at most. Pure.

    >>> share(["b", "a", "c"], "b", 7)
    [1, 4]
    """
    everybody = sorted(set(members) | {consumer})
    return list(range(everybody.index(consumer), buckets, len(everybody)))


class Membership:
    """One consumer's membership. Between two heartbeats others may come and go unseen; meanwhile
    a bucket may have two consumers or none, which the leases and the agenda make harmless.
    Not thread-safe."""

    def __init__(self, topic: Topic, consumer: str) -> None:
        self._topic = topic
        self._consumer = consumer
        self._next_ms = -math.inf
        self.members: list[str] = []

    @property
    def next_ms(self) -> float:
        """When it wants to be refreshed: for its own heartbeat, or when another is missed."""
        return self._next_ms

    def refresh(self) -> list[int]:
        """Shows itself, sees the others; the buckets that are its own."""
        buckets, seen = self._say(b"%d" % COUNTS_FOR_MS)
        self._topic.see(buckets)
        self._next_ms = self._topic.server.clock.now_ms() + HEARTBEAT_MS
        for member, until_ms in seen.items():
            if member != self._consumer:
                self._next_ms = min(self._next_ms, until_ms + 1)
        self.members = sorted(seen)
        return share(self.members, self._consumer, self._topic.buckets)

    def leave(self) -> None:
        """The others see at their next heartbeat that it is gone."""
        self._say(b"0")
        self._next_ms = -math.inf

    def _say(self, counts_for_ms: bytes) -> tuple[int, dict[str, float]]:
        """How many buckets the topic has, and who counts until when."""
        told, layout = [ids.as_bytes(self._consumer), counts_for_ms], self._topic.layout
        _, buckets, seen = self._topic.server.run(JOIN, [layout.members, layout.settings], told)
        return buckets, {
            ids.as_text(name): float(until) for name, until in zip(*[iter(seen)] * 2, strict=True)
        }
