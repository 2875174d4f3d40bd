"""Find the entity that holds the most, which loses a message when a limit is reached."""

from __future__ import annotations

import heapq


class Fullest:
    """Amounts by name, and the largest. Of equal ones the lowest number counts as larger.

    Uses a heap; outdated entries stay in it until they come up, or become too many.

    >>> fullest = Fullest()
    >>> fullest.put("a", 1, number=1)
    >>> fullest.put("b", 2, number=2)
    >>> fullest.victim("c")
    'b'
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, str]] = []

    def put(self, name: str, amount: int, number: int) -> None:
        """Set the amount of `name`."""
        if not amount:
            self._held.pop(name, None)
            return
        self._held[name] = (-amount, number)
        heapq.heappush(self._heap, (-amount, number, name))
        if len(self._heap) > 2 * len(self._held) + 1_000:
            self._heap = [(*held, name) for name, held in self._held.items()]
            heapq.heapify(self._heap)

    def victim(self, sender: str) -> str:
        """Return which entity loses a message for one of `sender`: the sender itself, if none holds
        more. So a sender of too much displaces its own messages, and none of entities that hold
        less."""
        while self._held.get(self._heap[0][2]) != self._heap[0][:2]:
            heapq.heappop(self._heap)
        most, _, name = self._heap[0]
        own = self._held.get(sender)
        return sender if own is not None and own[0] == most else name
