"""Calls that wake Batchers that wait for capacity.

Events are for users: they are late when a listener is slow, and some are lost when it is far
behind. A Batcher that missed a wake-up would not continue, so wake-ups are separate: each is called
immediately, by the thread that changes the capacity.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from limiters._support.rate_limited_log import RateLimitedLog

_log = logging.getLogger("limiters.shared")


class WakeUp:
    """One registered call, until `end()`."""

    def __init__(self, owner: WakeUps, call: Callable[[], object]) -> None:
        self._owner = owner
        self.call = call

    def end(self) -> None:
        """Remove the call. Idempotent."""
        self._owner.remove(self)


class WakeUps:
    """All wake-ups of one limiter. Thread-safe."""

    def __init__(self) -> None:
        # A signal handler may call a method that its thread is in.
        self._lock = threading.RLock()
        self._all: tuple[WakeUp, ...] = ()
        self._damped = RateLimitedLog(_log)

    def add(self, call: Callable[[], object]) -> WakeUp:
        """Register `call`, and return its registration."""
        added = WakeUp(self, call)
        with self._lock:
            self._all += (added,)
        return added

    def remove(self, wake_up: WakeUp) -> None:
        """Remove `wake_up`, if it is there."""
        with self._lock:
            self._all = tuple(one for one in self._all if one is not wake_up)

    def ring(self) -> None:
        """Call all of them, also if one raises."""
        for one in self._all:
            try:
                one.call()
            except Exception as error:
                facts = {"happening": "wake-up-raised", "error": type(error).__name__}
                text = "a call that a limiter wakes others by raised: %r"
                self._damped.log(logging.ERROR, text, one.call, exc_info=error, extra=facts)
