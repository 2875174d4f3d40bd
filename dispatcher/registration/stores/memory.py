"""The interface of a gate's store, and a store in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from dispatcher.registration._model.emissions import Stored
from dispatcher.registration._model.reports import Report


class LocalStore(Protocol):
    """Keeps the registered entities of one process: names, and records as text. Each saved record
    is given the next sequence number. No number is given twice, also not after its entity is
    removed."""

    @property
    def sequence(self) -> int:
        """The last number that was given."""
        ...

    def load(self) -> tuple[dict[str, str], list[Report]]:
        """Return everything that is stored, and what of it is lost."""
        ...

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """Store all of it or nothing, and number the records in their order. EntityStoreError if
        that fails."""
        ...

    def emitted(self, since: int) -> list[Stored]:
        """Return the entities with a higher number."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


class _Change(NamedTuple):
    sequence: int
    """The last number that is given then."""
    stored: Mapping[str, Stored] = {}
    removed: Collection[str] = ()


class MemoryEntityStore:
    """Keeps the entities in this object: a gate that is later created with it finds them.

    Not thread-safe; use it with one gate at a time.

    >>> from dispatcher.registration import MemoryEntityStore, RegistrationGate
    >>> store = MemoryEntityStore()
    >>> _ = RegistrationGate(store).register("meter")
    >>> RegistrationGate(store).offer("meter", "21.5")[0].messages
    ('21.5',)
    """

    def __init__(self) -> None:
        self._stored: dict[str, Stored] = {}
        self._change = _Change(0)
        """The change that is stored and not carried out yet."""

    @property
    def sequence(self) -> int:
        return self._change.sequence

    def load(self) -> tuple[dict[str, str], list[Report]]:
        self._carry_out()
        return {entity: one.record for entity, one in self._stored.items()}, []

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        self._carry_out()
        sequence, stored = self._change.sequence, {}
        for entity, record in records.items():
            sequence += 1
            stored[entity] = Stored(sequence, entity, record)
        # From here on all of it is stored. If an exception of a signal handler interrupts it, the
        # next call completes it.
        self._change = _Change(sequence, stored, tuple(removed))
        self._carry_out()

    def emitted(self, since: int) -> list[Stored]:
        self._carry_out()
        return [one for one in self._stored.values() if one.sequence > since]

    def close(self) -> None:
        """Do nothing: it holds only memory."""

    def _carry_out(self) -> None:
        """Apply the stored change. Idempotent."""
        sequence, stored, removed = self._change
        if stored or removed:
            self._stored.update(stored)
            for entity in removed:
                self._stored.pop(entity, None)
            self._change = _Change(sequence)
