"""What a gate's store has to do, and the store that forgets with the process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

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
        self._records: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._sequence = 0

    @property
    def sequence(self) -> int:
        """See LocalStore."""
        return self._sequence

    def load(self) -> tuple[dict[str, str], list[Report]]:
        """See LocalStore."""
        return dict(self._records), []

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """See LocalStore."""
        for entity, record in records.items():
            self._sequence += 1
            self._records[entity], self._numbers[entity] = record, self._sequence
        for entity in removed:
            self._records.pop(entity, None)
            self._numbers.pop(entity, None)

    def emitted(self, since: int) -> list[Stored]:
        """See LocalStore."""
        return [
            Stored(number, entity, self._records[entity])
            for entity, number in self._numbers.items()
            if number > since
        ]

    def close(self) -> None:
        """Nothing is held but memory."""
