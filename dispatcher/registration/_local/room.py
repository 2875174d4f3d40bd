"""The gate of one process: its entities in a dict, and in a store that survives the process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from dispatcher.registration._local.admission import RegistrationOrder
from dispatcher.registration._local.waiting import Waiting
from dispatcher.registration._model.bounds import Bounds
from dispatcher.registration._model.emissions import Stored
from dispatcher.registration._model.release import Registration, Release
from dispatcher.registration._model.reports import (
    DEREGISTERED,
    REGISTERED,
    RELEASED,
    UPDATED,
    Amounts,
    Report,
)
from dispatcher.registration._model.written import parent_of, record_of
from dispatcher.registration.early_log import EarlyMessageLog
from dispatcher.registration.stores.memory import LocalStore


class LocalRoom:
    """Carries out decisions: `Waiting` holds what waits, the store keeps the entities. Not
    thread-safe, but `known` may be read at any time: it contains an entity once it is stored."""

    def __init__(
        self, store: LocalStore, bounds: Bounds, early_log: EarlyMessageLog | None
    ) -> None:
        self._store = store
        self._bounds = bounds
        self._log = early_log
        self._waiting = Waiting(bounds, early_log)
        self.known, damage = store.load()
        self._waiting.reports += damage
        self._children: dict[str, dict[str, None]] | None = None
        """Children of registered entities. Built when it is first needed, so that loading is quick.
        """
        self._topmost: dict[str, str] = {}
        self._begun: Collection[str] = ()
        """The entities that the current call has changed so far."""
        self._again: set[str] = set()
        """Entities whose call was ended by an exception: their registration is released once more.
        """

    @property
    def pending(self) -> int:
        """Number of waiting entities."""
        return len(self._waiting)

    @property
    def sequence(self) -> int:
        """Sequence number of the last emission."""
        return self._store.sequence

    @property
    def highest(self) -> int:
        """Sequence number of the last emission: a store of one process gives no others."""
        return self._store.sequence

    def reports(self) -> list[Report]:
        """Return and clear the reports since the last call."""
        reports, self._waiting.reports = self._waiting.reports, []
        return reports

    def offer(self, entity: str, message: Any, metadata: bool, now: float) -> list[Release]:
        """Release or hold a message: laws R1 and R2."""
        self._begun = ()
        self._waiting.evict(now)
        if entity in self.known:
            return [Release(entity, None, (message,))]
        if self._bounds.auto_register:
            (release,) = self.register([Registration(entity)], now)
            return [release._replace(messages=(*release.messages, message))]
        if metadata:
            self._waiting.hold_metadata(entity, message, now)
        else:
            self._waiting.hold_telemetry(entity, message, now)
        return []

    def register(self, registrations: Sequence[Registration], now: float) -> list[Release]:
        """Carry out registrations: laws R3, R4 and R6."""
        self._begun = ()
        self._waiting.evict(now)
        admission = RegistrationOrder(self.known, self._waiting, self._again)
        for one in registrations:
            admission.take(one, record_of(one.parent, one.data))
        return self._carry_out(admission, now)

    def deregister(self, entity: str) -> list[str]:
        """Remove an entity, what is held of it, and all its descendants, which would have no
        registered parent."""
        self._begun = ()
        self._waiting.drop(entity, "it was deregistered")
        if entity not in self.known:
            return []
        removed, children = [entity], self._children_of_known()
        for one in removed:
            removed += children.get(one, ())
        self._begun = removed
        self._store.save({}, removed)
        for one in removed:
            self._unlink(one, parent_of(self.known.pop(one)))
            self._waiting.reports.append(Report(DEREGISTERED, one, 1))
        self._topmost.clear()
        return removed

    def evict(self, now: float) -> int:
        """Drop what was held too long: law R5."""
        return self._waiting.evict(now)

    def topmost(self, entity: str) -> str:
        """Return the ancestor without a parent; the entity itself if it has no parent or is not
        registered."""
        found = self._topmost.get(entity)
        if found is None:
            found, path = entity, []
            while found in self.known and (parent := parent_of(self.known[found])) is not None:
                path.append(found)
                found = parent
            self._topmost.update(dict.fromkeys(path, found))
        return found

    def look_up(self, entities: Iterable[str]) -> None:
        """Do nothing: `known` has all stored entities."""

    def emitted(self, since: int) -> list[Stored]:
        """Return the entities whose last emission has a higher number."""
        return self._store.emitted(since)

    def recount(self) -> Amounts:
        """Rebuild what is derived from the store and from what is held, and count what is held: an
        exception of a signal handler may have ended a call at any moment."""
        if self._begun:
            stored = {one.entity for one in self._store.emitted(0)}
            for entity in self._begun:
                if entity not in stored:
                    self.known.pop(entity, None)
            self._again.update(stored.intersection(self._begun))
            self._begun = ()
        self._children = None
        self._topmost.clear()
        return self._waiting.recount()

    def close(self) -> None:
        self._store.close()
        if self._log is not None:
            self._log.close()

    # Private.

    def _carry_out(self, admission: RegistrationOrder, now: float) -> list[Release]:
        """Carry out decisions. The store comes first: if it fails, nothing has changed. Held
        messages come last: they may displace waiting ones."""
        logged = self._waiting.read_logs(admission.records)
        self._begun = admission.records
        if admission.records:
            self._store.save(admission.records)
        releases = [
            self._release(one, record, logged.pop(one.entity, ()))
            for one, record in admission.admitted
        ]
        for entity, registration, text in admission.waits():
            if registration is None:
                self._waiting.forget_registration(entity)
            else:
                self._waiting.hold_registration(registration, text, now)
        self._again.difference_update(admission.records)
        return releases

    def _release(self, registration: Registration, record: str, logged: Iterable[str]) -> Release:
        entity = registration.entity
        held, messages = self._waiting.take(entity, logged)
        reports = self._waiting.reports
        before = self.known.get(entity)
        reports.append(Report(REGISTERED if before is None else UPDATED, entity, 1))
        if any(held):
            reports.append(Report(RELEASED, entity, *held))
        if before is not None:
            self._unlink(entity, parent_of(before))
            self._topmost.clear()
        self.known[entity] = record
        if self._children is not None and registration.parent is not None:
            self._children.setdefault(registration.parent, {})[entity] = None
        return Release(entity, registration, messages)

    def _children_of_known(self) -> dict[str, dict[str, None]]:
        if self._children is None:
            self._children = {}
            for entity, record in self.known.items():
                parent = parent_of(record)
                if parent is not None:
                    self._children.setdefault(parent, {})[entity] = None
        return self._children

    def _unlink(self, entity: str, parent: str | None) -> None:
        if self._children is not None and parent is not None:
            siblings = self._children.get(parent, {})
            siblings.pop(entity, None)
            if not siblings:
                self._children.pop(parent, None)
