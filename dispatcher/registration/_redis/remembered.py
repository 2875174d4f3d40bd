"""What one process remembers of the entities that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dispatcher.registration._model.bounds import MOST_DEEP

if TYPE_CHECKING:
    from dispatcher.registration._redis.replies import GateReply


class Remembered(dict[str, str]):
    """Registered entities and their parents; "" for those without one. As a container it has
    them as long as it is fresh.

    >>> remembered = Remembered(lambda: 0.0)
    >>> remembered["meter"] = "house"
    >>> "meter" in remembered, remembered.has("meter")
    (False, True)
    """

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self._now = now
        self.fresh_until = now()
        self.generation = 0
        """Of the last change that it has followed."""

    def __contains__(self, entity: object) -> bool:
        return super().__contains__(entity) and self._now() < self.fresh_until

    @property
    def is_fresh(self) -> bool:
        """Whether what it has still holds."""
        return self._now() < self.fresh_until

    def has(self, entity: str) -> bool:
        """Whether it has `entity`, fresh or not."""
        return super().__contains__(entity)

    def topmost(self, entity: str) -> str:
        """The highest ancestor it has a way to."""
        for _ in range(MOST_DEEP):
            parent = self.get(entity)
            if not parent:
                break
            entity = parent
        return entity

    def follow(self, reply: GateReply, fresh_until: float) -> None:
        """Forgets what has changed, and remembers what is so by now."""
        if reply.changed is None:
            self.clear()
        else:
            for entity in reply.changed:
                self.pop(entity, None)
        self.update(reply.links)
        self.generation = reply.generation
        if reply.generation == reply.newest:
            self.fresh_until = fresh_until
