"""Which bucket a consumer turns to next, and when. Pure.

A consumer is told of every bucket when its first message is due. Its own buckets it turns to at
that time. The others are somebody else's, who may be slow or gone without having been missed
yet: a lease that ran out there is everybody's after a moment, and a message that is overdue
after a while. That is what keeps a killed consumer's messages from waiting for its successor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

GRACE_MS = 15.0
"""How long a lease that has run out is left to whose bucket it is in."""

PATIENCE_MS = 500.0
"""How long a new message is."""


class Agenda:
    """Times are milliseconds of the server's clock. Not thread-safe."""

    def __init__(self, buckets: int) -> None:
        self._waiting = [math.inf] * buckets
        self._leased = [math.inf] * buckets
        self._due = [0] * buckets
        self._own = [True] * buckets
        self._turn = 0

    def assign(self, own: Iterable[int]) -> None:
        """These buckets are its own from now on."""
        self._own = [False] * len(self._own)
        for bucket in own:
            self._own[bucket] = True

    def learn(self, bucket: int, waiting: float, leased: float, due: int) -> None:
        """The server says when the first of each is due, and how many are due already."""
        self._waiting[bucket] = waiting
        self._leased[bucket] = leased
        self._due[bucket] = due

    def hear(self, bucket: int, waiting: float) -> None:
        """Something earlier than before was put into a bucket."""
        if 0 <= bucket < len(self._own):
            self._waiting[bucket] = min(self._waiting[bucket], waiting)

    def put_off(self, bucket: int, until: float) -> None:
        """It gave no answer, so the others go first."""
        self.learn(bucket, until, math.inf, 0)

    def when(self, bucket: int) -> float:
        """When to turn to a bucket."""
        waiting, leased = self._waiting[bucket], self._leased[bucket]
        if self._own[bucket]:
            return min(waiting, leased)
        return min(waiting + PATIENCE_MS, leased + GRACE_MS)

    def next(self) -> float:
        """When to turn to any; infinite if nothing is known of."""
        return min(map(self.when, range(len(self._own))))

    def choose(self, now: float, limit: int) -> list[tuple[int, int]]:
        """Which buckets to ask now, all at once, and for how many each: `limit` together.

        Each call begins after the last bucket of the one before, so that none is starved. A
        bucket of which it is not known how many are due is asked for all that is left.
        """
        chosen: list[tuple[int, int]] = []
        count = len(self._own)
        start = self._turn
        for step in range(count):
            bucket = (start + step) % count
            if limit > 0 and self.when(bucket) <= now:
                portion = min(limit, self._due[bucket] or limit)
                chosen.append((bucket, portion))
                limit -= portion
                self._turn = bucket + 1
        return chosen

    def due(self, now: float) -> int:
        """How many messages are due in its own buckets, as far as it knows."""
        return sum(
            max(1, self._due[it])
            for it, own in enumerate(self._own)
            if own and self.when(it) <= now
        )

    def has_more(self, now: float) -> bool:
        """Whether more is due in its own buckets, as far as it knows."""
        return any(own and self.when(it) <= now for it, own in enumerate(self._own))
