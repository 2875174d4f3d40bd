"""Which buckets a consumer asks next, for how many messages, and when. Pure.

A consumer keeps the earliest times of every bucket. It serves messages by time across all buckets,
one second at a time: it leases no message of a later second while a bucket still has one of an
earlier second. Within a second it empties one bucket after the other, since one script that leases
a hundred messages costs less than a hundred scripts that lease one.

It polls its own buckets, and those of busy consumers, as soon as a message is due. Every other
bucket belongs to a consumer that has room, or that has died without being missed yet: its expired
leases can be taken after GRACE_MS, and its overdue messages after a while.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dispatcher.timeline._server.topic import AT_ONCE, KNOWN

GRACE_MS = 15.0
"""For how long due messages are left to the consumer that owns the bucket, if another one has room
beyond its own buckets; and expired leases by any other consumer."""

PATIENCE_MS = 500.0
"""For how long a new message is left to the owner of the bucket by a consumer that waits for its
own."""

WINDOW_MS = 1_000
"""Messages that are due in the same window of this length may be served in any order."""


class Wave(NamedTuple):
    """The buckets to ask in one step, with the number of messages of each and the latest time of
    these."""

    portions: list[tuple[int, int]]
    latest: float


class _Due(NamedTuple):
    """The due times of a bucket, and whether there may be more after the last one."""

    times: list[float]
    is_cut: bool


class Agenda:
    """The due times of all buckets, in milliseconds of the server's clock. Not thread-safe."""

    def __init__(self, buckets: int) -> None:
        self._waiting: list[list[float]] = [[] for _ in range(buckets)]
        self._leased: list[list[float]] = [[] for _ in range(buckets)]
        self._beyond = [0] * buckets
        self._own = [True] * buckets
        self._turn = 0

    def assign(self, own: Iterable[int]) -> None:
        """Make these buckets the consumer's own."""
        self._own = [False] * len(self._own)
        for bucket in own:
            self._own[bucket] = True

    def learn(
        self, bucket: int, waiting: Sequence[float], leased: Sequence[float], beyond: int = 0
    ) -> None:
        """Set the earliest waiting and leased times of a bucket, at most KNOWN of each; fewer if
        those are all. `beyond` is how many more are due."""
        self._waiting[bucket] = list(waiting)
        self._leased[bucket] = list(leased)
        self._beyond[bucket] = beyond

    def hear(self, bucket: int, time: float) -> None:
        """Note that a message with an earlier time than before was put into a bucket."""
        if 0 <= bucket < len(self._own):
            insort(self._waiting[bucket], time)
            del self._waiting[bucket][KNOWN:]

    def put_off(self, bucket: int, until: float) -> None:
        """Ask other buckets first until then: this one gave no answer."""
        self.learn(bucket, [until], [])

    def when(self, bucket: int, patience: float = PATIENCE_MS) -> float:
        """Return when to ask a bucket."""
        waiting, leased = self._waiting[bucket], self._leased[bucket]
        left, lost = self._waits(bucket, patience)
        return min(
            waiting[0] + left if waiting else math.inf, leased[0] + lost if leased else math.inf
        )

    def next(self) -> float:
        """Return when to ask any bucket; infinity if no time is stored."""
        return min(map(self.when, range(len(self._own))))

    def due(self, now: float) -> int:
        """Number of messages that are due in the consumer's own buckets, by the stored times."""
        return sum(
            bisect_right(self._waiting[bucket], now)
            + bisect_right(self._leased[bucket], now)
            + self._beyond[bucket]
            for bucket, own in enumerate(self._own)
            if own
        )

    def has_more(self, now: float) -> bool:
        """Whether more messages are due in the consumer's own buckets, by the stored times."""
        return any(own and self.when(it) <= now for it, own in enumerate(self._own))

    def choose(self, now: float, limit: int, patience: float = PATIENCE_MS) -> Wave:
        """Return the buckets to ask now, in one step, with a number of messages for each; `limit`
        in all.

        Within a second buckets take turns: each call begins after the last bucket of the one
        before.
        """
        count = len(self._own)
        heads = ((self._head(bucket, now, patience), bucket) for bucket in range(count))
        queue = [
            (head // WINDOW_MS, (bucket - self._turn) % count, bucket, 0)
            for head, bucket in heads
            if head <= now
        ]
        due: dict[int, _Due] = {}
        heapq.heapify(queue)
        portions: dict[int, int] = {}
        window, last, left = -math.inf, math.inf, limit
        while queue and left and queue[0][0] <= last:
            window, turn, bucket, start = heapq.heappop(queue)
            if not start:
                due[bucket] = self._due(bucket, now, patience)
            times, is_cut = due[bucket]
            end = bisect_right(times, (window + 1) * WINDOW_MS - 1, start)
            portion = end - start
            if end < len(times):
                heapq.heappush(queue, (times[end] // WINDOW_MS, turn, bucket, end))
            elif is_cut:
                last = window  # the next messages may be of this window too
                portion = max(portion, AT_ONCE)
            portion = min(left, portion)
            portions[bucket] = portions.get(bucket, 0) + portion
            left -= portion
            self._turn = bucket + 1
        if left and last == math.inf:  # none of the stored times will be left
            return Wave(self._with_spare(portions, left), math.inf)
        return Wave(list(portions.items()), (window + 1) * WINDOW_MS - 1)

    def _with_spare(self, portions: dict[int, int], spare: int) -> list[tuple[int, int]]:
        """Divide the rest of a limit among the consumer's own buckets: they may have more by
        now."""
        mine = [bucket for bucket in portions if self._own[bucket]]
        for place, bucket in enumerate(mine):
            part = math.ceil(spare / (len(mine) - place))
            portions[bucket] += part
            spare -= part
        return list(portions.items())

    def _waits(self, bucket: int, patience: float) -> tuple[float, float]:
        """How long new messages of a bucket, and lost ones, are left to another consumer."""
        return (0.0, 0.0) if self._own[bucket] else (patience, GRACE_MS)

    def _head(self, bucket: int, now: float, patience: float) -> float:
        """The earliest time in a bucket that this consumer may serve; infinity if there is none."""
        waiting, leased = self._waiting[bucket], self._leased[bucket]
        left, lost = self._waits(bucket, patience)
        first = waiting[0] if waiting and waiting[0] + left <= now else math.inf
        if leased and leased[0] < first and leased[0] + lost <= now:
            return leased[0]
        return first

    def _due(self, bucket: int, now: float, patience: float) -> _Due:
        """The messages of a bucket that are due for this consumer."""
        times: list[float] = []
        end = math.inf
        both = self._waiting[bucket], self._leased[bucket]
        for known, wait in zip(both, self._waits(bucket, patience), strict=True):
            due = known[: bisect_right(known, now - wait)]
            if len(due) >= KNOWN:
                end = min(end, due[-1])
            times += due
        times.sort()
        return _Due(times[: bisect_right(times, end)], end < math.inf)
