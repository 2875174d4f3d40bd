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
    stored: dict[str, Stored]
    removed: tuple[str, ...]


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
        self._change = _Change(0, {}, ())
        """The last one: begun, perhaps carried out."""

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
        numbered = enumerate(records.items(), self.sequence + 1)
        stored = {entity: Stored(number, entity, record) for number, (entity, record) in numbered}
        # From here on it is stored, all of it: whoever calls next carries it out to its end, if
        # an exception of a signal handler comes in between.
        self._change = _Change(self.sequence + len(stored), stored, tuple(removed))
        self._carry_out()

    def emitted(self, since: int) -> list[Stored]:
        """See LocalStore."""
        self._carry_out()
        return [one for one in self._stored.values() if one.sequence > since]

    def close(self) -> None:
        """Nothing is held but memory."""

    def _carry_out(self) -> None:
        """Twice is as good as once."""
        self._stored.update(self._change.stored)
        for entity in self._change.removed:
            self._stored.pop(entity, None)
