"""Waiters: threads that wait until nothing is left, of a Batcher or of one of its watchers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dispatcher.lanes import Lanes
from dispatcher.watcher import Watcher


class Waiter:
    """Somebody who waits for the engine. `tell` is called once, unless they have gone."""

    __slots__ = ("gone", "tell")

    def __init__(self, tell: Callable[[], object]) -> None:
        self.tell = tell
        self.gone = False


def told_in_time(told: threading.Event, ended: threading.Event, timeout: float | None) -> bool:
    """Waits for either; False if that takes too long."""
    deadline = None if timeout is None else time.monotonic() + timeout
    while not told.is_set():
        if ended.is_set():
            return True
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        # The Batcher may end between our post and its last look at the posts.
        told.wait(1.0 if left is None else min(1.0, left))
    return True


class Waiters:
    """All of one engine, and owned by it."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.drains: list[Waiter] = []
        """Those who wait until nothing at all is left."""
        self._idlers: list[tuple[Waiter, Watcher]] = []

    def add_idler(self, waiter: Waiter, watcher: Watcher) -> None:
        """Tells `waiter` when nothing of `watcher` is left."""
        self._idlers.append((waiter, watcher))

    def tell_idlers(self) -> None:
        """Tells those whose watcher has nothing left."""
        if self._idlers:
            for waiter, watcher in self._idlers:
                if not waiter.gone and self._lanes.is_idle(watcher):
                    waiter.tell()
                    waiter.gone = True
            self._idlers = [one for one in self._idlers if not one[0].gone]

    def tell_drains(self, *, drained: bool) -> None:
        """Tells those who wait for all, if nothing is left; forgets those who have gone."""
        if drained:
            for waiter in self.drains:
                waiter.tell()
            self.drains = []
        else:
            self.drains = [waiter for waiter in self.drains if not waiter.gone]

    def close(self) -> None:
        """There is nothing to wait for any more."""
        for waiter in (*self.drains, *(one for one, _ in self._idlers)):
            waiter.tell()
