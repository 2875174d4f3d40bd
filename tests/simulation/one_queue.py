"""One queue for all callers, with the same calls, first come, first served. Limiters that
share several bounds are compared with it: calls of different cost cannot fill all of these."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from limiters.limits import Bound, BoundKind, Limits

FORGIVEN = 1e-9
"""The share of a bound that sums of floats may be off by."""

Called = tuple[Sequence[float], float]
"""The cost of a call in each bound, and the seconds for which it runs."""


def starts(limits: Limits, calls: Iterable[Called]) -> Iterator[float]:
    """When each call begins, from 0 on: as soon as all bounds have room for it, and not before the
    one in front of it."""
    now = 0.0
    rooms = [_Room(bound) for bound in limits.bounds]
    for costs, lasts in calls:
        for room, cost in zip(rooms, costs, strict=True):
            now = max(now, room.ready_at(cost, now))
        for room, cost in zip(rooms, costs, strict=True):
            room.enter(cost, now, lasts)
        yield now


class _Room:
    """The calls that count in one bound. Times never go back: what has expired never counts
    again."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._slots = bound.kind is BoundKind.SLOTS
        self._spent: deque[tuple[float, float]] = deque()
        self._running: list[tuple[float, float]] = []
        self._sum = 0.0

    def ready_at(self, cost: float, now: float) -> float:
        most = self._bound.capacity * (1 + FORGIVEN)
        while cost and self._sum + cost > most:
            at, freed = heapq.heappop(self._running) if self._slots else self._spent.popleft()
            now, self._sum = max(now, at), self._sum - freed
        return now

    def enter(self, cost: float, now: float, lasts: float) -> None:
        self._sum += cost
        if self._slots:
            heapq.heappush(self._running, (now + lasts, cost))
        else:
            self._spent.append((now + self._bound.period, cost))
