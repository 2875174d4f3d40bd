"""A latch: it is set once, and whoever waits for it goes on."""

from __future__ import annotations

import contextlib
import queue


class Latch:
    """Safe from any thread, and from signal handlers, which a `threading.Event` is not: that one
    has a lock, which the signal may find in the hands of the very thread that it interrupts."""

    def __init__(self) -> None:
        self._is_set = False
        self._word: queue.SimpleQueue[None] = queue.SimpleQueue()

    def is_set(self) -> bool:
        """Whether it was set."""
        return self._is_set

    def set(self) -> None:
        """Sets it, for good."""
        self._is_set = True
        self._word.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set, for at most `timeout`; whether it is."""
        if not self._is_set:
            with contextlib.suppress(queue.Empty):
                self._word.get(timeout=timeout)
                self._word.put(None)  # for the next one who waits
        return self._is_set
