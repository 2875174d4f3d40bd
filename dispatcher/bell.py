"""A bell: one thread sleeps until it is rung."""

from __future__ import annotations

import queue


class Bell:
    """Ringing it twice before it is heard is ringing it once. Safe from any thread, and from
    signal handlers: `SimpleQueue.put` is reentrant."""

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._rung = False

    def ring(self) -> None:
        """Wakes the sleeper, now or when it is about to sleep."""
        if not self._rung:
            self._rung = True
            self._rings.put(None)

    def wait(self, timeout: float | None) -> None:
        """Sleeps until it is rung, for at most `timeout`."""
        try:
            self._rings.get(timeout=timeout)
            while not self._rings.empty():  # two may have rung at once
                self._rings.get_nowait()
        except queue.Empty:
            pass
        # Only now: whoever rang up to here is looked after by what the sleeper does next.
        self._rung = False
