"""The gate of many processes: Redis decides; here is what one of them remembers of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dispatcher.registration.bounds import Bounds
from dispatcher.registration.errors import (
    AutoRegistrationConflictError,
    EntityStoreError,
    RegistrationCycleError,
)
from dispatcher.registration.redis import (
    DEREGISTER,
    EVICT,
    LOOK,
    OFFER,
    REGISTER,
    RedisEntityStore,
    new_gate,
)
from dispatcher.registration.release import Registration, Release
from dispatcher.registration.reports import DEREGISTERED, DROPPED, ERROR, Report
from dispatcher.registration.written import (
    message_of,
    record_of,
    registration_of,
    text_of,
)
from limiters.leases.script import Script


class Remembered(dict[str, str]):
    """Registered entities and their topmost ancestors; not to be asked for longer than it is
    fresh."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__()
        self.now = now
        self.fresh_until = now()

    def get(self, entity: str, default: Any = None) -> Any:
        """As a dict does, while it is fresh."""
        return super().get(entity, default) if self.now() < self.fresh_until else default


class RedisRoom:
    """Sends requests, each with a number, and again with the same one until it is answered: a
    reply that was lost may have set something free. Not thread-safe, but `known` may be read
    at any time."""

    def __init__(self, store: RedisEntityStore, bounds: Bounds) -> None:
        self._store = store
        self._bounds = [
            str(bounds.telemetry_limit),
            str(bounds.telemetry_per_entity),
            str(bounds.metadata_limit),
            str(bounds.pending_entities),
            str(max(1, round(bounds.max_age * 1000))),
            str(int(bounds.auto_register)),
        ]
        self._gate, self._process = new_gate(), os.getpid()
        self._requests = 0
        self._unanswered: _Request | None = None
        self._free: list[Release] = []
        """What requests have set free and nobody was handed yet."""
        self._generation = 0
        self._reports: list[Report] = []
        self._remembered = Remembered(time.monotonic)
        self.known: dict[str, str] = self._remembered
        self._ask(EVICT)  # so that a place that cannot be used is heard of at once

    @property
    def pending(self) -> int:
        """How many entities wait."""
        return int(self._look("")[1])

    def reports(self) -> list[Report]:
        """See LocalRoom."""
        reports, self._reports = self._reports, []
        return reports

    def offer(self, entity: str, message: Any, metadata: bool, now: float) -> list[Release]:
        """See LocalRoom."""
        if dict.get(self.known, entity) is not None and self._still_holds():
            return [*self._set_free(), Release(entity, None, (message,))]
        self._ask(OFFER, entity.encode(), text_of(message), str(int(metadata)))
        return self._set_free()

    def register(self, registration: Registration, now: float) -> list[Release]:
        """See LocalRoom."""
        entity, parent, data = registration
        answer = self._ask(REGISTER, entity.encode(), record_of(parent, data))
        if answer == "cycle":
            assert parent is not None
            raise RegistrationCycleError(entity, parent)
        return self._set_free()

    def deregister(self, entity: str) -> list[str]:
        """See LocalRoom."""
        seen = len(self._reports)
        self._ask(DEREGISTER, entity.encode())
        return [one.entity for one in self._reports[seen:] if one.name == DEREGISTERED]

    def evict(self, now: float) -> int:
        """See LocalRoom; the server's clock counts."""
        seen = len(self._reports)
        self._ask(EVICT)
        return sum(one.name == DROPPED for one in self._reports[seen:])

    def topmost(self, entity: str) -> str:
        """See LocalRoom."""
        return dict.get(self.known, entity) or _text(self._look(entity)[2])

    def close(self) -> None:
        """Lets go of the store."""
        self._store.close()

    # Inside.

    def _set_free(self) -> list[Release]:
        free, self._free = self._free, []
        return free

    def _ask(self, script: Script, *arguments: str | bytes) -> str:
        """Has a request carried out, after the one before it that was not answered. What it
        sets free is added to the rest; returns what is wrong, or "ok"."""
        if self._process != os.getpid():
            # Behind a fork: the requests of the two must not be taken for each other's.
            self._gate, self._process = new_gate(), os.getpid()
            self._unanswered, self._free = None, []
        if self._unanswered is not None:
            self._send(self._unanswered)
        self._requests += 1
        words = [self._gate, str(self._requests), *self._bounds, *arguments]
        answer = self._send(_Request(script, words))
        if answer == "conflict":
            raise AutoRegistrationConflictError
        return answer

    def _send(self, request: _Request) -> str:
        self._unanswered = request
        sent = time.monotonic()
        try:
            answer = self._run_twice(request)
        except EntityStoreError as error:
            if _was_refused(error):
                self._unanswered = None
            raise
        self._unanswered = None
        texts = map(_text, answer)
        self._follow(int(next(texts)), sent)
        wrong = next(texts)
        self._read(texts)
        return wrong

    def _run_twice(self, request: _Request) -> list[Any]:
        """A connection that was closed meanwhile is only noticed when it is used."""
        try:
            return self._store.run(*request)
        except EntityStoreError as error:
            if _was_refused(error):
                raise
            return self._store.run(*request)

    def _follow(self, generation: int, sent: float) -> None:
        """What is remembered holds as of when the request was sent, if nothing was removed."""
        if generation != self._generation:
            self._remembered.clear()
            self._generation = generation
        self._remembered.fresh_until = sent + self._store.refresh

    def _read(self, texts: Iterator[str]) -> None:
        for kind in texts:
            if kind == "report":
                name, entity = next(texts), next(texts)
                registrations, metadata, telemetry = (int(next(texts)) for _ in range(3))
                reason = next(texts)
                self._reports.append(
                    Report(name, entity, registrations, metadata, telemetry, reason)
                )
                continue
            entity, topmost, record = next(texts), next(texts), next(texts)
            bodies = [message_of(next(texts)) for _ in range(int(next(texts)))]
            registration = registration_of(entity, record) if record else None
            self._free.append(Release(entity, registration, tuple(bodies)))
            self._remembered[entity] = topmost

    def _still_holds(self) -> bool:
        """Whether nobody was removed since it was last asked. Who was registered passes also
        while Redis is away."""
        sent = time.monotonic()
        try:
            generation = int(self._look("")[0])
        except EntityStoreError as error:
            self._reports.append(Report(ERROR, "", reason=str(error)))
            self._remembered.fresh_until = time.monotonic() + self._store.refresh
            return True
        holds = generation == self._generation
        self._follow(generation, sent)
        return holds

    def _look(self, entity: str) -> list[Any]:
        return self._store.run(LOOK, [self._gate, "0", *self._bounds, entity.encode()])


class _Request(NamedTuple):
    """What is sent, again if need be."""

    script: Script
    words: list[str | bytes]


def _was_refused(error: EntityStoreError) -> bool:
    """Whether the server has answered: then it was not carried out, and never will be."""
    from redis.exceptions import ResponseError

    return isinstance(error.__cause__, ResponseError)


def _text(value: str | bytes | int) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
