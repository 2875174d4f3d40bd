"""Calls that wake those who wait for capacity.

The event channel is for users: it is late when a listener is slow, and loses events when one is far
behind. A Batcher that missed its wake-up would stand still, so wake-ups go a way of their own: each
is called at once, by the thread that changes the capacity.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from limiters._support.rate_limited_log import RateLimitedLog

_log = logging.getLogger("limiters.shared")


class WakeUp:
    """One call that was added. `end()` when it is not to be called any more."""

    def __init__(self, owner: WakeUps, call: Callable[[], object]) -> None:
        self._owner = owner
        self.call = call

    def end(self) -> None:
        """It is not called any more. Idempotent."""
        self._owner.remove(self)


class WakeUps:
    """All of one limiter. Thread-safe."""

    def __init__(self) -> None:
        # A signal handler may call what its own thread was just doing.
        self._lock = threading.RLock()
        self._all: tuple[WakeUp, ...] = ()
        self._damped = RateLimitedLog(_log)

    def add(self, call: Callable[[], object]) -> WakeUp:
        """Calls `call()` from now on."""
        added = WakeUp(self, call)
        with self._lock:
            self._all += (added,)
        return added

    def remove(self, wake_up: WakeUp) -> None:
        """Forgets `wake_up`; one that is unknown is no error."""
        with self._lock:
            self._all = tuple(one for one in self._all if one is not wake_up)

    def ring(self) -> None:
        """Calls all of them; one that raises keeps none of the others from it."""
        for one in self._all:
            try:
                one.call()
            except Exception as error:
                facts = {"happening": "wake-up-raised", "error": type(error).__name__}
                text = "a call that a limiter wakes others by raised: %r"
                self._damped.log(logging.ERROR, text, one.call, exc_info=error, extra=facts)
