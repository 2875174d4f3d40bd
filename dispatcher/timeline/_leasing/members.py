"""Which consumers a topic has, and which of them serves which bucket: each computes it from a list
in Redis."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from typing import Any

from dispatcher.timeline._encoding import ids
from dispatcher.timeline._server.server import JOIN
from dispatcher.timeline._server.topic import Topic

COUNTS_FOR_MS = 3_000
"""For how many milliseconds a consumer counts after its last heartbeat."""

HEARTBEAT_MS = COUNTS_FOR_MS / 3


def share(members: Sequence[str], consumer: str, buckets: int) -> list[int]:
    """Return the buckets of `consumer`. Computed by every consumer for the same list, the shares
    cover all buckets, do not overlap, and differ by at most one bucket. Pure.

    >>> share(["b", "a", "c"], "b", 7)
    [1, 4]
    """
    everybody = sorted(set(members) | {consumer})
    return list(range(everybody.index(consumer), buckets, len(everybody)))


def stand_in(
    members: Sequence[str], busy: Collection[str], consumer: str, buckets: int
) -> list[int]:
    """Return the buckets of busy consumers that `consumer` serves as well: those with room divide
    them evenly. Pure.

    >>> stand_in(["a", "b", "c"], {"a"}, "b", 7), stand_in(["a", "b", "c"], {"a"}, "c", 7)
    ([0, 6], [3])
    """
    everybody = sorted(set(members) | {consumer})
    free = [one for one in everybody if one not in busy]
    if consumer not in free:
        return []
    left = sorted(
        bucket for one in everybody if one in busy for bucket in share(everybody, one, buckets)
    )
    return left[free.index(consumer) :: len(free)]


class Membership:
    """Registers one consumer in the list of its topic. Between two heartbeats others may come and
    go unnoticed; meanwhile a bucket may have two consumers or none, which the leases and the agenda
    make harmless. The same holds until others are notified that one is busy or has room again. Not
    thread-safe.

    Heartbeats go by the monotonic clock, since Redis' clock may be set.
    """

    def __init__(self, topic: Topic, consumer: str) -> None:
        self._topic = topic
        self._consumer = consumer
        self._next = -math.inf
        self._shown = -math.inf
        self._busy: dict[str, float] = {}
        """Until when each busy consumer counts as busy."""
        self.members: list[str] = []

    @property
    def is_due(self) -> bool:
        """Whether a refresh is due: for the consumer's heartbeat, or because another one is
        missed."""
        return time.monotonic() >= self._next

    @property
    def is_listed(self) -> bool:
        """Whether the consumer has registered, and has not left since."""
        return self._shown > -math.inf

    @property
    def own(self) -> list[int]:
        """The consumer's share of the buckets."""
        return share(self.members, self._consumer, self._topic.buckets)

    @property
    def served(self) -> list[int]:
        """The consumer's share, and the buckets that it serves for busy consumers."""
        now = time.monotonic()
        busy = [one for one, until in self._busy.items() if until > now]
        return self.own + stand_in(self.members, busy, self._consumer, self._topic.buckets)

    def hear(self, consumer: str, is_busy: bool) -> None:
        """Note that another consumer is busy, or has room again. Reports about the consumer itself
        do not count: it serves others only when it has room."""
        self._busy.pop(consumer, None)
        if is_busy and consumer != self._consumer:
            self._busy[consumer] = time.monotonic() + COUNTS_FOR_MS / 1000

    def refresh(self) -> None:
        """Send a heartbeat, and read the list of consumers."""
        now_us, settings, listed = self._ask(b"%d" % COUNTS_FOR_MS)
        self._topic.see(settings)
        seen = {
            ids.as_text(name): float(until) for name, until in zip(*[iter(listed)] * 2, strict=True)
        }
        now, now_ms = time.monotonic(), now_us / 1000
        self._next = now + HEARTBEAT_MS / 1000
        for member, until_ms in seen.items():
            if member != self._consumer:
                self._next = min(self._next, now + (until_ms + 1 - now_ms) / 1000)
        self.members = sorted(seen)
        self._busy = {one: until for one, until in self._busy.items() if one in seen}

    def stay_listed(self) -> None:
        """Send a heartbeat if one is due, and change nothing else: so that another thread may call
        it while the consumer's own thread has no room."""
        if time.monotonic() - self._shown >= HEARTBEAT_MS / 1000:
            self._ask(b"%d" % COUNTS_FOR_MS)

    def leave(self) -> None:
        """Remove the consumer from the list. Others see it at their next heartbeat."""
        self._ask(b"0")
        self._next = self._shown = -math.inf

    def _ask(self, counts_for_ms: bytes) -> list[Any]:
        """Return the server's time, the topic's settings, and until when each consumer counts."""
        told, layout = [ids.as_bytes(self._consumer), counts_for_ms], self._topic.layout
        answer = self._topic.server.run(JOIN, [layout.members, layout.settings], told)
        self._shown = time.monotonic()
        return answer
