"""Waiters: threads that wait until nothing is left, of a Batcher or of one of its watchers."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable

from dispatcher._core.queues.lanes import Lanes
from dispatcher.watcher import Watcher

LOOK = 1.0
"""Seconds after which a caller looks whether the Batcher has ended."""


class DrainWaiter:
    """Somebody who waits for the engine. `tell` is called once, unless they have gone."""

    __slots__ = ("gone", "tell")

    def __init__(self, tell: Callable[[], object]) -> None:
        self.tell = tell
        self.gone = False


class Gate:
    """What one caller waits at. The caller may be interrupted at any point without holding up the
    thread that opens it, which a `threading.Event` does not promise: that one has a lock."""

    def __init__(self) -> None:
        self._opened: queue.SimpleQueue[None] = queue.SimpleQueue()

    def open(self) -> None:
        """Lets the caller go on."""
        self._opened.put(None)

    def wait(self, ended: Callable[[], bool], timeout: float | None) -> bool:
        """Waits until it is opened, or until `ended`; False if that takes too long."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not ended():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return not self._opened.empty()
            # The Batcher may end between our post and its last look at the posts.
            with contextlib.suppress(queue.Empty):
                self._opened.get(timeout=LOOK if left is None else min(LOOK, left))
                return True
        return True


class Waiters:
    """All of one engine, and owned by it."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.drains: list[DrainWaiter] = []
        """Those who wait until nothing at all is left."""
        self._idlers: list[tuple[DrainWaiter, Watcher]] = []

    def add_idler(self, waiter: DrainWaiter, watcher: Watcher) -> None:
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
