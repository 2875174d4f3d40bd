"""What a gate's store has to do, and the store that forgets with the process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol


class LocalStore(Protocol):
    """Where one process keeps its registered entities: names, and records as text."""

    def load(self) -> tuple[dict[str, str], list[str]]:
        """All that is stored, and what could not be read, in words."""
        ...

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """Stores all of it or nothing. EntityStoreError if it cannot."""
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

    def load(self) -> tuple[dict[str, str], list[str]]:
        """See LocalStore."""
        return dict(self._records), []

    def save(self, records: Mapping[str, str], removed: Collection[str] = ()) -> None:
        """See LocalStore."""
        self._records.update(records)
        for entity in removed:
            self._records.pop(entity, None)

    def close(self) -> None:
        """Nothing is held but memory."""
