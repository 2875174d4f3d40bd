"""Messages and registrations that wait for a registration, in memory. Pure: no clock, no thread."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from dispatcher.registration._model.bounds import Bounds
from dispatcher.registration._model.fullest import Fullest
from dispatcher.registration._model.release import Registration
from dispatcher.registration._model.reports import (
    CORRUPT,
    DISPLACED,
    DROPPED,
    ERROR,
    HELD,
    Amounts,
    Report,
)
from dispatcher.registration._model.written import UnreadableError, message_of, text_of
from dispatcher.registration.early_log import EarlyMessageLog
from dispatcher.registration.errors import EntityStoreError
from limiters._support.validation import in_seconds


class Pending:
    """Everything held of one entity. Empty lists are not created, since there may be many
    entities."""

    __slots__ = ("logged", "metadata", "number", "registration", "since", "telemetry")

    def __init__(self, number: int, since: float) -> None:
        self.number = number
        self.since = since
        self.registration: tuple[Registration, str] | None = None
        """The registration with its record. They are set together: an exception of a signal handler
        may come between two assignments."""
        self.metadata: list[Any] | None = None
        self.telemetry: list[Any] | None = None
        self.logged = 0
        """Number of its messages that are in the early log."""

    @property
    def empty(self) -> bool:
        """Whether nothing waits any more."""
        return not (self.registration or self.metadata or self.telemetry or self.logged)


class Waiting:
    """All pending entities, the oldest first. Every change adds to `reports`, which the caller
    reads and clears. Not thread-safe."""

    def __init__(self, bounds: Bounds, early_log: EarlyMessageLog | None) -> None:
        self._bounds = bounds
        self._max_age = in_seconds(bounds.max_age)
        self._log = early_log
        self._entities: OrderedDict[str, Pending] = OrderedDict()
        self._children: dict[str, dict[str, None]] = {}
        """The children whose registrations wait for each parent, in order of arrival."""
        self._numbers = 0
        self._telemetry = 0
        self._metadata = 0
        self._most_telemetry = Fullest()
        self._most_metadata = Fullest()
        self.reports: list[Report] = []

    def __len__(self) -> int:
        return len(self._entities)

    def get(self, entity: str) -> Pending | None:
        """Everything held of `entity`."""
        return self._entities.get(entity)

    def children(self, entity: str) -> list[str]:
        """Entities whose registrations wait for that of `entity`, in order of arrival."""
        return list(self._children.get(entity, ()))

    def hold_metadata(self, entity: str, message: Any, now: float) -> None:
        """Hold metadata. At the limit, the entity with the most metadata is dropped, with all it
        has; of equal ones the oldest."""
        if self._metadata >= self._bounds.metadata_limit:
            self.drop(self._most_metadata.victim(entity), "there is too much metadata")
        pending = self._pend(entity, now)
        if pending.metadata is None:
            pending.metadata = []
        pending.metadata.append(message)
        self._metadata += 1
        self._most_metadata.put(entity, len(pending.metadata), pending.number)
        self.reports.append(Report(HELD, entity, metadata=1))

    def hold_telemetry(self, entity: str, message: Any, now: float) -> None:
        """Hold telemetry, in a ring for each entity. At the limit, the entity that holds the most
        loses its oldest message."""
        pending = self._entities.get(entity)
        # Once a message could not be written, later ones stay out of the log too: they would
        # overtake it.
        if self._log is not None and not (pending and pending.telemetry):
            if self._logged(self._log, entity, text_of(message), now):
                return
            pending = self._entities.get(entity)
        if (
            pending is not None
            and len(pending.telemetry or ()) >= self._bounds.telemetry_per_entity
        ):
            self._displace(entity, entity, "the ring of its entity is full")
        elif self._telemetry >= self._bounds.telemetry_limit:
            victim = self._most_telemetry.victim(entity)
            self._displace(victim, entity, "there is too much telemetry")
        pending = self._pend(entity, now)
        if pending.telemetry is None:
            pending.telemetry = []
        pending.telemetry.append(message)
        self._telemetry += 1
        self._most_telemetry.put(entity, len(pending.telemetry), pending.number)
        self.reports.append(Report(HELD, entity, telemetry=1))

    def hold_registration(self, registration: Registration, record: str, now: float) -> None:
        """Hold a registration until its parent is registered. A newer one replaces the older."""
        entity, parent = registration.entity, registration.parent
        assert parent is not None
        pending = self._pend(entity, now)
        if pending.registration is not None and pending.registration[1] == record:
            return
        self._let_go(entity, pending)
        pending.registration = registration, record
        self._children.setdefault(parent, {})[entity] = None
        self.reports.append(Report(HELD, entity, registrations=1))

    def forget_registration(self, entity: str) -> None:
        """Drop the held registration of `entity`, since a newer one has come; not its data."""
        pending = self._entities.get(entity)
        if pending is not None:
            self._let_go(entity, pending)
            self._forget_if_empty(entity, pending)

    def read_logs(self, entities: Iterable[str]) -> dict[str, list[str]]:
        """Read the early log of each entity. EntityStoreError if it cannot be read at present."""
        if self._log is None:
            return {}
        try:
            return {entity: self._log.read(entity) for entity in entities}
        except OSError as error:
            raise EntityStoreError(
                f"the early log in {self._log.directory} cannot be read: {error}; see ulimit -n, "
                "then register again"
            ) from error

    def take(self, entity: str, texts: Iterable[str]) -> tuple[Amounts, tuple[Any, ...]]:
        """Remove what is held of `entity`. Return its amounts, and the messages in order. `texts`
        are the messages from the early log."""
        pending = self._entities.pop(entity, None)
        if pending is None:
            return Amounts(), ()
        metadata, telemetry = pending.metadata or [], pending.telemetry or []
        self._account(entity, pending)
        logged: list[Any] = []
        if pending.logged and self._log is not None:
            self._log.drop(entity)
            for text in texts:
                with suppress(UnreadableError):
                    logged.append(message_of(text))
            lost = pending.logged - len(logged)
            if lost:
                reason = "they cannot be read from the early log any more"
                self.reports.append(Report(CORRUPT, entity, telemetry=lost, reason=reason))
        held_registration = int(pending.registration is not None)
        amounts = Amounts(held_registration, len(metadata), len(logged) + len(telemetry))
        return amounts, (*metadata, *logged, *telemetry)

    def drop(self, entity: str, reason: str) -> None:
        """Drop all that is held of `entity`."""
        pending = self._entities.pop(entity, None)
        if pending is None:
            return
        self._account(entity, pending)
        if pending.logged and self._log is not None:
            self._log.drop(entity)
        self.reports.append(
            Report(
                DROPPED,
                entity,
                int(pending.registration is not None),
                len(pending.metadata or ()),
                len(pending.telemetry or ()) + pending.logged,
                reason,
            )
        )

    def evict(self, now: float) -> int:
        """Drop what has been held too long. Return the number of entities."""
        dropped = 0
        while self._entities:
            entity = next(iter(self._entities))
            if now - self._entities[entity].since < self._max_age:
                break
            self.drop(entity, "it was held too long")
            dropped += 1
        if self._log is not None:
            for entity, count in self._log.evict(now):
                self._lost_from_log(entity, count, DROPPED, "it was in the early log too long")
        return dropped

    def recount(self) -> Amounts:
        """Rebuild the derived state, and count what is held."""
        logged = self._log.recount() if self._log is not None else {}
        self._children = {}
        self._telemetry = self._metadata = registrations = 0
        self._most_telemetry, self._most_metadata = Fullest(), Fullest()
        for entity, pending in list(self._entities.items()):
            pending.logged = logged.pop(entity, 0)
            self._forget_if_empty(entity, pending)
            metadata, telemetry = len(pending.metadata or ()), len(pending.telemetry or ())
            self._metadata += metadata
            self._telemetry += telemetry
            self._most_metadata.put(entity, metadata, pending.number)
            self._most_telemetry.put(entity, telemetry, pending.number)
            if pending.registration is not None:
                parent = pending.registration[0].parent
                assert parent is not None
                registrations += 1
                self._children.setdefault(parent, {})[entity] = None
        for entity in logged:
            assert self._log is not None
            self._log.drop(entity)  # no more of it is stored: its first offer was interrupted
        in_logs = sum(one.logged for one in self._entities.values())
        return Amounts(registrations, self._metadata, self._telemetry + in_logs)

    # Private.

    def _logged(self, log: EarlyMessageLog, entity: str, text: str, now: float) -> bool:
        """Whether the log has taken the message, or it is too long for any log."""
        try:
            fits = log.append(entity, text, now)
        except OSError as error:
            self.reports.append(
                Report(ERROR, entity, reason=f"the early log in {log.directory}: {error}")
            )
            fits = None
        displaced, log.displaced = log.displaced, []
        for one, count in displaced:
            self._lost_from_log(one, count)
        if fits is None:
            return False
        self.reports.append(Report(HELD, entity, telemetry=1))
        if fits:
            self._pend(entity, now).logged += 1
        else:
            reason = "it is too long for the early log"
            self.reports.append(Report(DISPLACED, entity, telemetry=1, reason=reason))
        return True

    def _pend(self, entity: str, now: float) -> Pending:
        pending = self._entities.get(entity)
        if pending is None:
            if len(self._entities) >= self._bounds.pending_entities:
                self.drop(next(iter(self._entities)), "there are too many pending entities")
            self._numbers += 1
            pending = self._entities[entity] = Pending(self._numbers, now)
        return pending

    def _displace(self, entity: str, sender: str, reason: str) -> None:
        pending = self._entities[entity]
        assert pending.telemetry
        pending.telemetry.pop(0)
        self._telemetry -= 1
        self._most_telemetry.put(entity, len(pending.telemetry), pending.number)
        self.reports.append(Report(DISPLACED, entity, telemetry=1, reason=reason))
        if entity != sender:  # the entity displaced its own message, so its age does not change
            self._forget_if_empty(entity, pending)

    def _let_go(self, entity: str, pending: Pending) -> None:
        if pending.registration is None:
            return
        self._unlink(pending.registration[0])
        pending.registration = None
        reason = "a newer registration has come"
        self.reports.append(Report(DISPLACED, entity, registrations=1, reason=reason))

    def _lost_from_log(
        self, entity: str, count: int, name: str = DISPLACED, reason: str = "the early log is full"
    ) -> None:
        pending = self._entities[entity]
        pending.logged -= count
        self.reports.append(Report(name, entity, telemetry=count, reason=reason))
        self._forget_if_empty(entity, pending)

    def _forget_if_empty(self, entity: str, pending: Pending) -> None:
        if pending.empty:
            del self._entities[entity]

    def _account(self, entity: str, pending: Pending) -> None:
        self._metadata -= len(pending.metadata or ())
        self._telemetry -= len(pending.telemetry or ())
        self._most_metadata.put(entity, 0, 0)
        self._most_telemetry.put(entity, 0, 0)
        if pending.registration is not None:
            self._unlink(pending.registration[0])

    def _unlink(self, registration: Registration) -> None:
        parent = registration.parent
        assert parent is not None
        siblings = self._children[parent]
        del siblings[registration.entity]
        if not siblings:
            del self._children[parent]
