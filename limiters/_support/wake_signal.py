"""A wake-up signal: one thread sleeps until another one rings."""

from __future__ import annotations

import queue


class WakeSignal:
    """Two calls of `ring` before the sleeper wakes up count as one. Safe from any thread, and from
    signal handlers: `SimpleQueue.put` is reentrant, and there is no other state."""

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Wake the sleeper, now or when it is about to sleep."""
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, timeout: float | None) -> None:
        """Sleep until `ring` is called, for at most `timeout`."""
        try:
            self._rings.get(timeout=timeout)
            while not self._rings.empty():  # two threads may have rung together
                self._rings.get_nowait()
        except queue.Empty:
            pass
