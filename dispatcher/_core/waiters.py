"""Waiters: threads that wait until nothing is left of a Batcher or of one of its watchers."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable

from dispatcher._core.queues.lanes import Lanes
from dispatcher.watcher import Watcher

LOOK = 1.0
"""Seconds after which a waiting caller looks whether the Batcher has ended."""


class DrainWaiter:
    """A caller that waits for the engine. `wake` is called once, unless the caller has gone."""

    __slots__ = ("gone", "wake")

    def __init__(self, wake: Callable[[], object]) -> None:
        self.wake = wake
        self.gone = False


class Gate:
    """The gate at which one caller waits. The caller may be interrupted at any point without
    holding up the thread that opens the gate. A `threading.Event` has a lock, and does not promise
    that."""

    def __init__(self) -> None:
        self._opened: queue.SimpleQueue[None] = queue.SimpleQueue()

    def open(self) -> None:
        """Let the caller go on."""
        self._opened.put(None)

    def wait(self, ended: Callable[[], bool], timeout: float | None) -> bool:
        """Wait until the gate is opened or `ended` returns True. Return False after `timeout`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not ended():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return not self._opened.empty()
            # The Batcher may end between the caller's post and its own last look at the posts.
            with contextlib.suppress(queue.Empty):
                self._opened.get(timeout=LOOK if left is None else min(LOOK, left))
                return True
        return True


class Waiters:
    """All waiters of one engine, which owns this object."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self.drains: list[DrainWaiter] = []
        """Callers that wait until nothing at all is left."""
        self._idlers: list[tuple[DrainWaiter, Watcher]] = []

    def add_idler(self, waiter: DrainWaiter, watcher: Watcher) -> None:
        """Wake `waiter` when nothing of `watcher` is left."""
        self._idlers.append((waiter, watcher))

    def wake_idlers(self) -> None:
        """Wake the callers whose watcher has nothing left."""
        if self._idlers:
            for waiter, watcher in self._idlers:
                if not waiter.gone and self._lanes.is_idle(watcher):
                    waiter.wake()
                    waiter.gone = True
            self._idlers = [one for one in self._idlers if not one[0].gone]

    def wake_drains(self, *, drained: bool) -> None:
        """Wake the callers that wait for everything, if nothing is left; forget those that have
        gone."""
        if drained:
            for waiter in self.drains:
                waiter.wake()
            self.drains = []
        else:
            self.drains = [waiter for waiter in self.drains if not waiter.gone]

    def close(self) -> None:
        """Wake all callers: there is nothing to wait for any more."""
        for waiter in (*self.drains, *(one for one, _ in self._idlers)):
            waiter.wake()
