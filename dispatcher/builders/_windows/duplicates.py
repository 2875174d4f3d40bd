"""Remember the messages of closed batches for as long as a duplicate may come (law E4)."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any

Identity = tuple[Hashable, Any]
"""A message's key and event time: two equal ones are one message, delivered twice."""


class Duplicates:
    """The remembered messages. Bounded by time: each batch is forgotten as a whole."""

    def __init__(self) -> None:
        self.known: set[Identity] = set()
        self.batches: deque[tuple[Any, list[Identity]]] = deque()
        """The closed batches with the time until which each is remembered, in the order in which
        they closed."""

    def remember(self, batch: list[Identity], until: Any) -> None:
        """Remember messages up to and including `until`, or for longer while an older batch is
        remembered."""
        self.known.update(batch)
        self.batches.append((until, batch))

    def forget(self, now: Any) -> None:
        """Forget the messages that were to be remembered until some time before `now`."""
        while self.batches and self.batches[0][0] < now:
            self.known.difference_update(self.batches.popleft()[1])
