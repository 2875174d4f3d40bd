"""RegistrationGate: messages of registered entities pass; early ones wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import repeat
from types import TracebackType
from typing import Any, Protocol

from dispatcher.registration._local.room import LocalRoom
from dispatcher.registration._model.bounds import Bounds
from dispatcher.registration._model.emissions import Emission, Stored, in_order
from dispatcher.registration._model.release import Registration, Release
from dispatcher.registration._model.reports import (
    DROPPED,
    GATE_EVENTS,
    HELD,
    Amounts,
    Counts,
    Report,
)
from dispatcher.registration._redis.room import RedisRoom
from dispatcher.registration.early_log import EarlyMessageLog
from dispatcher.registration.errors import AutoRegistrationConflictError
from dispatcher.registration.stores.memory import LocalStore
from dispatcher.registration.stores.redis import RedisEntityStore
from limiters._support.clock import Clock, clock_of
from limiters._support.options import about
from limiters._support.signatures import lists, takes
from limiters._support.validation import ArgumentError, instance_of, text
from limiters.errors import Sendable
from limiters.events import Emitter, Event, Listener

# Equal to `Release(...)`, without a call into Python: each message that passes makes one.
_release: Callable[[type[Release], tuple[Any, ...]], Release] = tuple.__new__

_OF_A_STORE = ("load", "save", "emitted", "close")


class Room(Protocol):
    """Decides what passes and what waits, and keeps both."""

    known: dict[str, str]

    @property
    def pending(self) -> int:
        """Number of waiting entities."""
        ...

    @property
    def sequence(self) -> int:
        """The sequence number of the last registration that was released."""
        ...

    @property
    def highest(self) -> int:
        """The highest sequence number that the store has given."""
        ...

    def reports(self) -> list[Report]:
        """Return and clear the reports since the last call."""
        ...

    def recount(self) -> Amounts | None:
        """Count what is held after a call that an exception has ended at any moment. None if it is
        counted elsewhere."""
        ...

    def offer(self, entity: str, message: Any, metadata: bool, now: float) -> list[Release]:
        """Release or hold a message of an entity that is not in `known`."""
        ...

    def look_up(self, entities: Iterable[str]) -> None:
        """Add those of `entities` that are registered to `known`."""
        ...

    def register(self, registrations: Sequence[Registration], now: float) -> list[Release]: ...
    def deregister(self, entity: str) -> list[str]: ...
    def evict(self, now: float) -> int: ...
    def topmost(self, entity: str) -> str: ...
    def emitted(self, since: int) -> list[Stored]: ...
    def close(self) -> None: ...


def _store(name: str, value: object) -> object:
    local = all(callable(getattr(value, method, None)) for method in _OF_A_STORE)
    if not (local or isinstance(value, RedisEntityStore)):
        raise ArgumentError(name, value, "be an entity store")
    return value


@dataclass(frozen=True, kw_only=True)
class GateOptions(Bounds):
    """The options of a RegistrationGate."""

    store: LocalStore | RedisEntityStore = field(
        kw_only=False,
        metadata=about(
            "MemoryEntityStore, SqliteEntityStore or RedisEntityStore. Its content is loaded "
            "before the first message. With RedisEntityStore, all gates of one name are one gate: "
            "what one holds is released by the one that receives the registration",
            _store,
        ),
    )
    early_log: EarlyMessageLog | None = field(
        default=None,
        metadata=about(
            "keeps the telemetry of this gate on disk, within its own bounds",
            instance_of(EarlyMessageLog),
        ),
    )
    clock: Clock | None = field(default=None, metadata=about("the clock; a ManualClock in tests"))


@lists(GateOptions)
class RegistrationGate:
    """Passes messages of registered entities. Holds messages that arrive before their entity's
    registration, and registrations that arrive before those of their ancestors.

    Names of entities are texts. Data, and messages that leave the process, are made of None, bool,
    int, float, str, bytes, datetime, list, tuple and dict. `counts` and listeners report everything
    held, released, displaced, dropped, registered, updated, deregistered and corrupt; each event's
    `value` is the number, its `message` the reason, its `metadata` a Report.

    Thread-safe. But there is no order between the results of two threads: hold a lock while you
    pass them on, as `dispatcher.senders.GatedSender` does.

    >>> from dispatcher.registration import MemoryEntityStore, RegistrationGate
    >>> gate = RegistrationGate(MemoryEntityStore())
    >>> gate.offer("meter", "21.5")
    []
    >>> gate.register("meter", parent="house")
    []
    >>> [release.entity for release in gate.register("house")]
    ['house', 'meter']
    >>> gate.offer("meter", "21.6")
    [Release(entity='meter', registration=None, messages=('21.6',))]
    """

    @takes(GateOptions)
    def __init__(self, options: GateOptions) -> None:
        self._auto_register = options.auto_register
        self._now = clock_of(options.clock).now
        self._lock = threading.RLock()
        self._counts = Counts()
        self._emitter = Emitter("RegistrationGate", GATE_EVENTS)
        self._room: Room
        store, early_log = options.store, options.early_log
        if not isinstance(store, RedisEntityStore):
            self._room = LocalRoom(store, options, early_log)
        elif early_log is None:
            self._room = RedisRoom(store, options)
        else:
            raise ArgumentError(
                "early_log",
                early_log,
                "be None with a RedisEntityStore, which holds early messages where all gates of "
                "its name find them",
            )
        self._known = self._room.known.__contains__
        self._sequence = 0
        self._damage = self._room.reports()
        """Losses that were found while loading; reported to the first listener too."""
        self._counts.add(self._damage)
        self._found_lost = sum(one.registrations for one in self._damage)
        self._is_in_doubt = False
        """Whether an exception may have ended a call at any moment."""

    # Input.

    def offer(self, entity: str, message: Any, *, metadata: bool = False) -> list[Release]:
        """Take a message, and return what may go on now: the message, if its entity is registered;
        otherwise nothing. `metadata` is kept apart from telemetry, and longer. EntityStoreError if
        a store that has to be asked cannot be reached."""
        try:
            if self._known(entity):
                return [_release(Release, (entity, None, (message,)))]
        except TypeError:  # it has no hash, and is refused like any other value that is no text
            pass
        text("entity", entity)
        with self._lock, self._telling():
            return self._handed_out(self._room.offer(entity, message, metadata, self._now()))

    def offer_many(self, messages: Iterable[tuple[str, Any]]) -> list[Release]:
        """Take many telemetry messages, each with its entity, in order. With a RedisEntityStore,
        entities that this gate has not cached are looked up together. If it raises, some messages
        may have been taken."""
        pairs = list(messages)
        entities = [entity for entity, _ in pairs]
        try:
            all_known = all(map(self._known, entities))
        except TypeError:
            all_known = False
        if all_known:
            bodies = zip(message for _, message in pairs)
            return list(map(_release, repeat(Release), zip(entities, repeat(None), bodies)))
        for entity in entities:
            text("entity", entity)
        with self._lock, self._telling():
            self._room.look_up(entities)
        return [release for one, message in pairs for release in self.offer(one, message)]

    def register(
        self, entity: str, *, parent: str | None = None, data: Any = None
    ) -> list[Release]:
        """Take a registration, and return what it releases, parents before children. Nothing is
        released while an ancestor is missing, nor if the registration is unchanged. `data` is the
        user's. When it returns, the registration is stored.

        RegistrationCycleError, AutoRegistrationConflictError or EntityStoreError if it is refused;
        then nothing has changed.
        """
        return self.register_many([Registration(entity, parent, data)])

    def register_many(self, registrations: Iterable[Registration]) -> list[Release]:
        """Take many registrations, in order. A SqliteEntityStore writes them in one transaction,
        which is many times as fast as one by one.

        If one of them is refused, nothing has changed. But with a RedisEntityStore they are carried
        out in portions: if one is refused or Redis stays away, those before it may be carried out,
        and what they release is returned by the next call.
        """
        taken = list(registrations)
        for one in taken:
            if not isinstance(one, Registration):
                raise ArgumentError("registrations", one, "be of Registration objects")
            entity, parent, _ = one
            text("entity", entity)
            if parent is not None:
                text("parent", parent)
            if self._auto_register:
                raise AutoRegistrationConflictError(entity)
        with self._lock, self._telling():
            return self._handed_out(self._room.register(taken, self._now()))

    def deregister(self, entity: str) -> list[str]:
        """Remove an entity, what is held of it, and its registered descendants, since they have no
        parent any more. Return the removed entities, parents before children. Later messages wait
        for a new registration."""
        text("entity", entity)
        with self._lock, self._telling():
            return self._room.deregister(entity)

    def evict(self, now: float | None = None) -> int:
        """Drop what has been held too long, and return the number of entities. Call it now and then
        if nothing else calls the gate: every other call does it as well. `now` is by the gate's
        clock; with a RedisEntityStore, the server's time counts."""
        with self._lock, self._telling():
            return self._room.evict(self._now() if now is None else now)

    # Output.

    @property
    def sequence(self) -> int:
        """The mark of a consumer that has handled everything that this gate has returned: all
        registrations in it have a sequence number up to this. 0 if there were none."""
        with self._lock:
            return self._sequence

    def emissions_since(self, sequence: int) -> list[Emission]:
        """Return the registrations that were released after the mark `sequence`, by any gate with
        this store, also if a process was killed before it could handle them. Each entity that is
        still registered is returned once, with its last registration, parents before children. 0 is
        the mark of a consumer that has handled nothing.

        A mark is the `sequence` of the last emission that is handled, and later that of the gate. A
        mark above all numbers of the store comes from a store that is gone, and counts as 0.
        EntityStoreError if the store cannot be read.
        """
        if isinstance(sequence, bool) or not isinstance(sequence, int) or sequence < 0:
            raise ArgumentError("sequence", sequence, "be a whole number from 0 on")
        with self._lock:
            highest = self._room.highest
            mark = sequence if sequence <= highest else 0
            emissions = in_order(self._room.emitted(mark), mark)
            before = min(self._sequence, highest)
            self._sequence = max([before, mark, *(one.sequence for one in emissions)])
            return emissions

    # State.

    @property
    def pending(self) -> int:
        """Number of entities that wait, with their messages or their registration."""
        with self._lock, self._telling():
            return self._room.pending

    @property
    def counts(self) -> dict[str, Amounts]:
        """Amounts that were held, released, and so on, by the names of the events. What was held is
        always the sum of what was released, displaced, dropped or found corrupt, and what waits.
        With a RedisEntityStore, that holds for the sums of all gates."""
        with self._lock, self._telling():
            return self._counts.read()

    def topmost(self, entity: str) -> str:
        """Return the ancestor of a registered entity that has no parent, possibly the entity
        itself. Use it as the key that keeps the messages of a whole family in order."""
        with self._lock:
            return self._room.topmost(entity)

    def add_listener(self, fn: Callable[[Event], object], *names: str) -> Listener:
        """Call `fn(event)` for the named events, or for all of them, on a separate thread: a
        listener that is slow or raises does not affect the gate."""
        listener = self._emitter.add_listener(fn, *names)
        with self._lock:
            damage, self._damage = self._damage, []
            self._emit(damage)
        return listener

    # Closing.

    def close(self) -> None:
        """Close the store and the log. What is still held in memory is lost."""
        with self._lock:
            self._room.close()
        self._emitter.close()

    def __enter__(self) -> RegistrationGate:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _handed_out(self, releases: list[Release]) -> list[Release]:
        if any(one.registration is not None for one in releases):
            self._sequence = self._room.sequence
        return releases

    def _telling(self) -> _Telling:
        return _Telling(self)

    def _settle(self) -> None:
        """Count what the interrupted call has not: what it took and did not return is dropped."""
        held = self._room.recount()
        self._tell()
        if held is not None:
            lost = self._counts.unaccounted(held, self._found_lost)
            dropped = Amounts(*(max(0, one) for one in lost))
            untold = Amounts(*(max(0, -one) for one in lost))
            reason = "the call that had them was interrupted"
            reports = [
                Report(name, "", one.registrations, one.metadata, one.telemetry, reason)
                for name, one in ((HELD, untold), (DROPPED, dropped))
                if any(one)
            ]
            self._counts.add(reports)
            self._emit(reports)
        self._is_in_doubt = False

    def _tell(self) -> None:
        reports = self._room.reports()
        self._counts.add(reports)
        self._emit(reports)

    def _emit(self, reports: list[Report]) -> None:
        for report in reports:
            self._emitter.emit(report.name, report.total, report.reason, report)


class _Telling:
    """Reports what has happened in its block, also if that ended with an error."""

    __slots__ = ("_gate",)

    def __init__(self, gate: RegistrationGate) -> None:
        self._gate = gate

    def __enter__(self) -> None:
        if self._gate._is_in_doubt:
            self._gate._settle()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gate._is_in_doubt = True
        if error is None or isinstance(error, Sendable):
            self._gate._tell()
            self._gate._is_in_doubt = False
            return
        # Other exceptions come from outside, at any moment: a signal handler has raised them.
        with suppress(Sendable, OSError):  # the next call tries again
            self._gate._settle()
