"""What wakes a consumer that sleeps, and what it has to catch up with when it was busy."""

from __future__ import annotations

import queue

MOST_UNHEARD = 1_000
"""How many things are kept for one who is busy; it looks by itself if there were more."""

Heard = tuple[int, float] | tuple[str, bool]
"""A bucket has something earlier, due then; or a consumer is busy, or no more."""


class ConsumerSignal:
    """Thread-safe; one thread listens."""

    def __init__(self) -> None:
        self._heard: queue.SimpleQueue[Heard | None] = queue.SimpleQueue()

    def ring(self, heard: Heard | None) -> None:
        """Something was heard of. None: something may have been missed."""
        waiting = self._heard.qsize()
        if waiting < MOST_UNHEARD:
            self._heard.put(heard)
        elif waiting == MOST_UNHEARD:
            self._heard.put(None)

    def wake(self) -> None:
        """Ends a sleep, and nothing else."""
        if self._heard.empty():  # else it ends in a moment
            self._heard.put((-1, 0.0))

    def listen(self, seconds: float) -> tuple[list[Heard], bool]:
        """Waits until something is heard of, for so long at most. All there is, and whether
        something may have been missed."""
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
