"""A gate as one would write it down: lists, searched from end to end, and no thought of speed."""

from __future__ import annotations

from collections import Counter
from typing import Any

Released = list[tuple[str, tuple[str | None, Any] | None, tuple[Any, ...]]]


class Held:
    """Everything held of one entity."""

    def __init__(self, entity: str, since: float) -> None:
        self.entity = entity
        self.since = since
        self.registration: tuple[str | None, Any] | None = None
        """Its parent, its data."""
        self.moment = 0
        """The time of its arrival."""
        self.metadata: list[Any] = []
        self.telemetry: list[Any] = []

    @property
    def empty(self) -> bool:
        return not (self.registration or self.metadata or self.telemetry)


class PlainGate:
    """Laws R1 to R6, one after the other."""

    def __init__(
        self,
        *,
        telemetry_limit: int,
        telemetry_per_entity: int,
        metadata_limit: int,
        pending_entities: int,
        max_age: float,
        known: dict[str, tuple[str | None, Any]] | None = None,
    ) -> None:
        self.telemetry_limit = telemetry_limit
        self.telemetry_per_entity = telemetry_per_entity
        self.metadata_limit = metadata_limit
        self.pending_entities = pending_entities
        self.max_age = max_age
        self.known = dict(known or {})
        self.pending: list[Held] = []
        self.moment = 0
        self.lost: Counter[str] = Counter()

    def find(self, entity: str) -> Held | None:
        return next((held for held in self.pending if held.entity == entity), None)

    def evict(self, now: float) -> None:
        for held in list(self.pending):
            if now - held.since >= self.max_age:
                self.drop(held)

    def offer(self, entity: str, message: Any, metadata: bool, now: float) -> Released:
        self.evict(now)
        if entity in self.known:
            return [(entity, None, (message,))]
        if metadata:
            if sum(len(held.metadata) for held in self.pending) >= self.metadata_limit:
                self.drop(self.victim(entity, "metadata"))
            self.pend(entity, now).metadata.append(message)
            return []
        own = self.find(entity)
        if own is not None and len(own.telemetry) >= self.telemetry_per_entity:
            self.displace(own, own)
        elif sum(len(held.telemetry) for held in self.pending) >= self.telemetry_limit:
            self.displace(self.victim(entity, "telemetry"), own)
        self.pend(entity, now).telemetry.append(message)
        return []

    def register(self, entity: str, parent: str | None, data: Any, now: float) -> Released | None:
        """None: it would be its own ancestor."""
        self.evict(now)
        self.moment += 1
        if self.known.get(entity) == (parent, data):
            held = self.find(entity)
            if held is not None and held.registration:
                held.registration = None
                self.lost["displaced"] += 1
                self.forget_if_empty(held)
            return []
        if parent is not None and entity in self.ancestors(parent):
            return None
        if parent is not None and parent not in self.known:
            held = self.pend(entity, now)
            if held.registration is None or held.registration != (parent, data):
                self.lost["displaced"] += held.registration is not None
                held.registration = (parent, data)
                held.moment = self.moment
            return []
        family: list[tuple[str, str | None, Any]] = [(entity, parent, data)]
        for member in family:
            for held in sorted(
                [one for one in self.pending if one.registration], key=lambda one: one.moment
            ):
                assert held.registration is not None
                above, its_data = held.registration
                if above == member[0] and held.entity not in [one[0] for one in family]:
                    family.append((held.entity, above, its_data))
        released: Released = []
        for one, above, its_data in family:
            self.known[one] = (above, its_data)
            found = self.find(one)
            messages = tuple(found.metadata + found.telemetry) if found else ()
            if found:
                self.pending.remove(found)
            released.append((one, (above, its_data), messages))
        return released

    def deregister(self, entity: str) -> list[str]:
        held = self.find(entity)
        if held is not None:
            self.drop(held)
        if entity not in self.known:
            return []
        removed = [entity]
        for one in removed:
            removed += sorted(name for name, (above, _) in self.known.items() if above == one)
        for one in removed:
            del self.known[one]
        return removed

    def ancestors(self, entity: str) -> set[str]:
        found = {entity}
        while True:
            more = set(found)
            for one in found:
                held = self.find(one)
                if held is not None and held.registration and held.registration[0]:
                    more.add(held.registration[0])
                above = self.known[one][0] if one in self.known else None
                if above:
                    more.add(above)
            if more == found:
                return found
            found = more

    def victim(self, sender: str, kind: str) -> Held:
        most = max(len(getattr(held, kind)) for held in self.pending)
        fullest = [held for held in self.pending if len(getattr(held, kind)) == most]
        return next((held for held in fullest if held.entity == sender), fullest[0])

    def pend(self, entity: str, now: float) -> Held:
        held = self.find(entity)
        if held is None:
            if len(self.pending) >= self.pending_entities:
                self.drop(self.pending[0])
            held = Held(entity, now)
            self.pending.append(held)
        return held

    def drop(self, held: Held) -> None:
        self.pending.remove(held)
        self.lost["dropped"] += bool(held.registration) + len(held.metadata) + len(held.telemetry)

    def displace(self, held: Held, sender: Held | None) -> None:
        held.telemetry.pop(0)
        self.lost["displaced"] += 1
        if held is not sender:
            self.forget_if_empty(held)

    def forget_if_empty(self, held: Held) -> None:
        if held.empty:
            self.pending.remove(held)
