"""The limiter that a Batcher goes by: started by the first that needs it, stopped by the last."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial

from limiters._support.validation import ArgumentError
from limiters.events import CAPACITY, SHUTDOWN, Event
from limiters.limiter import Publisher, RateLimiter
from limiters.tally import Source

_log = logging.getLogger(__name__)


class _Use:
    """One limiter and the Batchers that use it."""

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter = limiter
        self.holders = 0
        """How many Batchers refer to this; the registry's."""
        self._lock = threading.Lock()
        self._running = 0
        self._ours = False
        """Whether a Batcher has started it. A limiter that the user started, the user stops."""

    def begin(self) -> None:
        """One more Batcher runs on it. Starts it, unless it runs."""
        with self._lock:
            if not self.limiter.started:
                self.limiter.start()
                self._ours = True
            self._running += 1

    def end(self) -> None:
        """One Batcher less runs on it; the last one stops it, if a Batcher has started it."""
        with self._lock:
            self._running -= 1
            if self._ours and not self._running:
                self._ours = False
                self.limiter.stop()


class _Registry:
    """The limiters that Batchers of this process use, by identity."""

    def __init__(self) -> None:
        self._uses: dict[int, _Use] = {}
        self._lock = threading.Lock()

    def hold(self, limiter: RateLimiter) -> _Use:
        """What all who use `limiter` share."""
        with self._lock:
            use = self._uses.setdefault(id(limiter), _Use(limiter))
            use.holders += 1
            return use

    def let_go(self, use: _Use) -> None:
        """One of those who hold `use` does not any more."""
        with self._lock:
            use.holders -= 1
            if not use.holders:
                del self._uses[id(use.limiter)]


_registry = _Registry()


class Limiting:
    """One per Batcher, which may have none. Used by one thread at a time."""

    def __init__(self, limiter: RateLimiter | None) -> None:
        # A class has all the methods of its instances, and so would pass for one.
        if limiter is not None and (
            isinstance(limiter, type) or not isinstance(limiter, RateLimiter)
        ):
            raise ArgumentError(
                "rate_limiter",
                limiter,
                "be a RateLimiter",
                "for one process ProvisionedResource(capacity), for many SharedResource(...)",
            )
        self.limiter = limiter
        self._undo: list[Callable[[], object]] = []
        """What was begun, as what ends it."""

    def listen(self, changed: Callable[[Event], object]) -> None:
        """Calls `changed` whenever it holds more, or less, or is stopped."""
        if self.limiter is not None:
            self._undo.append(self.limiter.add_listener(changed, CAPACITY, SHUTDOWN).remove)

    def start(self, totals: Source) -> None:
        """Starts it, unless it runs, and has it tell others of `totals`, if it can."""
        limiter, registry = self.limiter, _registry
        if limiter is None:
            return
        use = registry.hold(limiter)
        self._undo.append(partial(registry.let_go, use))
        use.begin()
        self._undo.append(use.end)
        if isinstance(limiter, Publisher):
            self._undo.append(limiter.publish(totals).end)

    def end(self) -> None:
        """Ends all of that; an error of the user's limiter does not keep the Batcher from it."""
        while self._undo:
            try:
                self._undo.pop()()
            except BaseException:
                facts = {"happening": "limiter-not-stopped"}
                _log.exception("the limiter could not be stopped: %r", self.limiter, extra=facts)


def _begin_in_child() -> None:
    # The Batchers stayed in the parent, and its threads may hold the lock.
    global _registry
    _registry = _Registry()


os.register_at_fork(after_in_child=_begin_in_child)
