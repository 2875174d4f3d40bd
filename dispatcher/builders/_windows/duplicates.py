"""What the messages of closed batches were, for as long as a repetition may come (law E4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

Identity = tuple[Hashable, Any]
"""A message's key and event time: two alike are one message, delivered twice."""


class Duplicates:
    """Bounded by time: each batch is forgotten as a whole."""

    def __init__(self) -> None:
        self.known: set[Identity] = set()
        self.batches: deque[tuple[Any, list[Identity]]] = deque()
        """Each with the time until which it is known, in the order in which they closed."""

    def remember(self, batch: list[Identity], until: Any) -> None:
        """Knows them up to and including `until`, or for longer while an older batch is known."""
        self.known.update(batch)
        self.batches.append((until, batch))

    def forget(self, now: Any) -> None:
        """Lets go of what was to be known until some time before `now`."""
        while self.batches and self.batches[0][0] < now:
            self.known.difference_update(self.batches.popleft()[1])
