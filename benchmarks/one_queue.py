"""The starts of the same calls from a single queue: first come, first served.

A computation, not a measurement: it has no clock, no network and no guard. No limiter that is exact
and keeps this order can use more.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tests.servers.counted import Allowed, Window

Item = TypeVar("Item")


def starts(
    calls: Iterable[Item],
    allowed: Allowed,
    *,
    cost: Callable[[Item, str], float],
    seconds: Callable[[Item], float],
) -> Iterator[tuple[float, Item]]:
    """When each call begins, from 0 on: at the first instant at which none is over, and not before
    the one in front of it."""
    at = 0.0
    windows = [_RollingWindow(window) for window in allowed.windows]
    ends: list[float] = []
    for one in calls:
        costs = [cost(one, window.dimension) for window in allowed.windows]
        for window, amount in zip(windows, costs, strict=True):
            at = max(at, window.room_at(amount))
        while len(ends) >= allowed.in_flight:
            at = max(at, heapq.heappop(ends))
        for window, amount in zip(windows, costs, strict=True):
            window.add(at, amount)
        heapq.heappush(ends, at + seconds(one))
        yield at, one


class _RollingWindow:
    """Times never go back, so what has once left a window never returns."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._entries: deque[tuple[float, float]] = deque()
        self._sum = 0.0

    def room_at(self, amount: float) -> float:
        """The first instant at which there is room."""
        at = 0.0
        while self._entries and self._sum + amount > self._window.most:
            began, freed = self._entries.popleft()
            self._sum -= freed
            at = began + self._window.seconds
        return at

    def add(self, at: float, amount: float) -> None:
        self._entries.append((at, amount))
        self._sum += amount
