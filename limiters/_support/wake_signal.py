"""A bell: one thread sleeps until it is rung."""

from __future__ import annotations

import queue


class WakeSignal:
    """Ringing it twice before it is heard is ringing it once. Safe from any thread, and from
    signal handlers: `SimpleQueue.put` is reentrant, and there is no other state."""

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Wakes the sleeper, now or when it is about to sleep."""
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, timeout: float | None) -> None:
        """Sleeps until it is rung, for at most `timeout`."""
        try:
            self._rings.get(timeout=timeout)
            while not self._rings.empty():  # two may have rung together
                self._rings.get_nowait()
        except queue.Empty:
            pass
