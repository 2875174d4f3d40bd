"""What a gate's store has to do, and the store that forgets with the process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from dispatcher.registration._model.emissions import Stored
from dispatcher.registration._model.reports import Report


class LocalStore(Protocol):
    """Where one process keeps its registered entities: names, and records as text. Each record
    that is saved is given the next sequence number; none is given twice, also not after the
    entity that had it is removed."""

    @property
    def sequence(self) -> int:
        """The last number that was given."""
        ...

    def load(self) -> tuple[dict[str, str], list[Report]]:
        """All that is stored, and what of it is lost."""
        ...

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """Stores all of it or nothing, and numbers the records in their order. EntityStoreError
        if it cannot."""
        ...

    def emitted(self, since: int) -> list[Stored]:
        """What has a higher number."""
        ...

    def close(self) -> None:
        """Lets go of what it holds."""
        ...


class _Change(NamedTuple):
    sequence: int
    """The last number that is given then."""
    stored: Mapping[str, Stored] = {}
    removed: Collection[str] = ()


class MemoryEntityStore:
    """Keeps the entities in this object: another gate, made with it later, finds them.

    Not thread-safe; hand it to one gate at a time.

    >>> from dispatcher.registration import MemoryEntityStore, RegistrationGate
    >>> store = MemoryEntityStore()
    >>> _ = RegistrationGate(store).register("meter")
    >>> RegistrationGate(store).offer("meter", "21.5")[0].messages
    ('21.5',)
    """

    def __init__(self) -> None:
        self._stored: dict[str, Stored] = {}
        self._change = _Change(0)
        """What is stored and not carried out yet."""

    @property
    def sequence(self) -> int:
        """See LocalStore."""
        return self._change.sequence

    def load(self) -> tuple[dict[str, str], list[Report]]:
        """See LocalStore."""
        self._carry_out()
        return {entity: one.record for entity, one in self._stored.items()}, []

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """See LocalStore."""
        self._carry_out()
        sequence, stored = self._change.sequence, {}
        for entity, record in records.items():
            sequence += 1
            stored[entity] = Stored(sequence, entity, record)
        # From here on all of it is stored. If an exception of a signal handler comes in between,
        # the next call carries it out to its end.
        self._change = _Change(sequence, stored, tuple(removed))
        self._carry_out()

    def emitted(self, since: int) -> list[Stored]:
        """See LocalStore."""
        self._carry_out()
        return [one for one in self._stored.values() if one.sequence > since]

    def close(self) -> None:
        """Nothing is held but memory."""

    def _carry_out(self) -> None:
        """Idempotent."""
        sequence, stored, removed = self._change
        if stored or removed:
            self._stored.update(stored)
            for entity in removed:
                self._stored.pop(entity, None)
            self._change = _Change(sequence)
