"""A latch: it is set once, and from then on no thread waits for it."""

from __future__ import annotations

import contextlib
import queue


class Latch:
    """Safe from any thread, and from signal handlers. A `threading.Event` is not: it has a lock,
    which the very thread may hold that the signal interrupts."""

    def __init__(self) -> None:
        self._is_set = False
        self._word: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Set the latch. It stays set."""
        self._is_set = True
        self._word.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the latch is set, for at most `timeout`. Return whether it is set."""
        if not self._is_set:
            with contextlib.suppress(queue.Empty):
                self._word.get(timeout=timeout)
                self._word.put(None)  # for the next waiting thread
        return self._is_set
