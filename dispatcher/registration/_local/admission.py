"""Decide which registrations are admitted and which have to wait, before anything is changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import NamedTuple

from dispatcher.registration._local.waiting import Waiting
from dispatcher.registration._model.bounds import MOST_DEEP
from dispatcher.registration._model.release import Registration
from dispatcher.registration._model.written import parent_of
from dispatcher.registration.errors import RegistrationCycleError


class Waits(NamedTuple):
    """A registration that has to wait; None if the waiting registration of `entity` is outdated."""

    entity: str
    registration: Registration | None = None
    record: str = ""


class RegistrationOrder:
    """Takes registrations one after the other, and decides on each as if those before it had been
    carried out. Nothing is carried out until all of them are stored: so all are, or none.

    `admitted` registrations are released in this order: parents before children. `held` ones wait
    for their parents. `unchanged` ones repeat what is registered; a waiting registration of the
    same entity is outdated.
    """

    def __init__(
        self, known: Mapping[str, str], waiting: Waiting, again: Collection[str] = ()
    ) -> None:
        self._known = known
        self._again = again
        """Entities that are registered, and whose registration is released once more when it comes
        again."""
        self._waiting = waiting
        self.admitted: list[tuple[Registration, str]] = []
        """Admitted registrations with their records."""
        self.held: dict[str, tuple[Registration, str]] = {}
        self.records: dict[str, str] = {}
        """For each admitted entity, its last record."""
        self.unchanged: set[str] = set()
        self._not_admitted: list[Waits] = []
        self._admitted_at: dict[str, int] = {}
        """For each admitted registration, the number of those not admitted before it."""
        self._children: dict[str, dict[str, None]] = {}
        """The children in `held` of each parent, in order of arrival."""

    def take(self, registration: Registration, record: str) -> None:
        """Add a registration. RegistrationCycleError if the entity would be its own ancestor."""
        entity, parent, _ = registration
        is_due = entity in self._again and entity not in self.records
        if self._record_of(entity) == record and not is_due:
            self._let_go(entity)
            self.unchanged.add(entity)
            self._not_admitted.append(Waits(entity))
            return
        if parent is not None:
            self._check_ancestors(entity, parent)
            if self._record_of(parent) is None:
                self._hold(registration, record, parent)
                return
        self._admit(registration, record)

    def waits(self) -> list[Waits]:
        """Return what to hold and what to forget, in order, after the admitted registrations have
        been released. What arrived for one of them earlier was released with it."""
        return [
            one
            for number, one in enumerate(self._not_admitted)
            if number >= self._admitted_at.get(one.entity, 0)
        ]

    def _hold(self, registration: Registration, record: str, parent: str) -> None:
        """Hold a registration. One that is repeated keeps its place among its siblings."""
        entity = registration.entity
        self._not_admitted.append(Waits(entity, registration, record))
        if self._held_record(entity) != record:
            self._let_go(entity)
            self.held[entity] = registration, record
            self._children.setdefault(parent, {})[entity] = None

    def _admit(self, registration: Registration, record: str) -> None:
        """Admit a registration, with every held descendant."""
        queue = deque([(registration, record)])
        while queue:
            one, text = queue.popleft()
            self._let_go(one.entity)
            self.admitted.append((one, text))
            self.records[one.entity] = text
            self._admitted_at[one.entity] = len(self._not_admitted)
            queue += self._waiting_for(one.entity)

    def _waiting_for(self, parent: str) -> list[tuple[Registration, str]]:
        held = []
        for child in self._waiting.children(parent):
            if not self._is_settled(child):
                pending = self._waiting.get(child)
                assert pending is not None
                assert pending.registration is not None
                held.append(pending.registration)
        return held + [self.held[child] for child in self._children.get(parent, ())]

    def _let_go(self, entity: str) -> None:
        held = self.held.pop(entity, None)
        if held is not None:
            parent = held[0].parent
            assert parent is not None
            del self._children[parent][entity]

    def _is_settled(self, entity: str) -> bool:
        """Whether the waiting registration of `entity` is outdated."""
        return entity in self.records or entity in self.held or entity in self.unchanged

    def _record_of(self, entity: str) -> str | None:
        return self.records.get(entity) or self._known.get(entity)

    def _check_ancestors(self, entity: str, parent: str) -> None:
        """Check both parents: a registered entity may also have a held registration with another
        parent, and neither may lead back to the entity."""
        above, found = {parent}, [parent]
        for one in found:
            if one == entity or len(found) > MOST_DEEP:
                raise RegistrationCycleError(entity, parent)
            record = self._record_of(one)
            for next_one in (
                self._held_parent(one),
                parent_of(record) if record is not None else None,
            ):
                if next_one is not None and next_one not in above:
                    above.add(next_one)
                    found.append(next_one)

    def _held_parent(self, entity: str) -> str | None:
        record = self._held_record(entity)
        return None if record is None else parent_of(record)

    def _held_record(self, entity: str) -> str | None:
        if entity in self.held:
            return self.held[entity][1]
        pending = None if self._is_settled(entity) else self._waiting.get(entity)
        if pending is None or pending.registration is None:
            return None
        return pending.registration[1]
