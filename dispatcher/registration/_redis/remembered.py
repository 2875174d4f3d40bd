"""Cache of the shared entities in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dispatcher.registration._model.bounds import MOST_DEEP

if TYPE_CHECKING:
    from dispatcher.registration._redis.replies import GateReply


class Remembered(dict[str, str]):
    """Registered entities and their parents; "" for those without one. The `in` operator finds them
    only as long as the cache is fresh.

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
        """The number of the last change that was processed."""

    def __contains__(self, entity: object) -> bool:
        return super().__contains__(entity) and self._now() < self.fresh_until

    @property
    def is_fresh(self) -> bool:
        """Whether the cached entities are still valid."""
        return self._now() < self.fresh_until

    def has(self, entity: str) -> bool:
        """Whether `entity` is cached, fresh or not."""
        return super().__contains__(entity)

    def topmost(self, entity: str) -> str:
        """Return the highest ancestor that is cached."""
        for _ in range(MOST_DEEP):
            parent = self.get(entity)
            if not parent:
                break
            entity = parent
        return entity

    def follow(self, reply: GateReply, fresh_until: float) -> None:
        """Remove entities that have changed, and add the links in the reply."""
        if reply.changed is None:
            self.clear()
        else:
            for entity in reply.changed:
                self.pop(entity, None)
        self.update(reply.links)
        self.generation = reply.generation
        if reply.generation == reply.newest:
            self.fresh_until = fresh_until
