"""Wakes a sleeping consumer, and keeps the notifications that arrive while it is busy."""

from __future__ import annotations

import queue

MOST_UNHEARD = 1_000
"""Number of notifications kept for a busy consumer; if there were more, it examines all buckets."""

Heard = tuple[int, float] | tuple[str, bool]
"""A bucket and the earlier time that it has now; or a consumer and whether it is busy."""


class ConsumerSignal:
    """Passes notifications to one waiting thread. Thread-safe."""

    def __init__(self) -> None:
        self._heard: queue.SimpleQueue[Heard | None] = queue.SimpleQueue()

    def ring(self, heard: Heard | None) -> None:
        """Add a notification. None: some may have been missed."""
        waiting = self._heard.qsize()
        if waiting < MOST_UNHEARD:
            self._heard.put(heard)
        elif waiting == MOST_UNHEARD:
            self._heard.put(None)

    def wake(self) -> None:
        """End a sleep without a notification."""
        if self._heard.empty():  # otherwise it ends in a moment
            self._heard.put((-1, 0.0))

    def listen(self, seconds: float) -> tuple[list[Heard], bool]:
        """Wait at most `seconds` for a notification. Return all notifications, and whether some may
        have been missed."""
        heard: list[Heard] = []
        has_missed = False
        try:
            one = self._heard.get(timeout=seconds) if seconds > 0 else self._heard.get_nowait()
            while True:
                if one is None:
                    has_missed = True
                else:
                    heard.append(one)
                one = self._heard.get_nowait()
        except queue.Empty:
            return heard, has_missed
