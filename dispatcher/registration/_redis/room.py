"""The gate of many processes: Redis decides; this module caches what one process needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from dispatcher.registration._model.bounds import Bounds
from dispatcher.registration._model.emissions import Stored
from dispatcher.registration._model.release import Registration, Release
from dispatcher.registration._model.reports import DEREGISTERED, DROPPED, ERROR, Report
from dispatcher.registration._model.written import (
    UnreadableError,
    record_of,
    registration_of,
    sealed_text_of,
)
from dispatcher.registration._redis.remembered import Remembered
from dispatcher.registration._redis.replies import GateReply, Piece, read, text
from dispatcher.registration.errors import (
    AutoRegistrationConflictError,
    EntityStoreError,
    RegistrationCycleError,
)
from dispatcher.registration.stores.redis import (
    CONTINUE,
    DEREGISTER,
    EMISSIONS,
    EVICT,
    LOOK,
    MEND,
    OFFER,
    REGISTER,
    RedisEntityStore,
    new_gate,
)
from limiters._redis.faults import is_known
from limiters._redis.script import Script
from limiters._support.validation import in_seconds

T = TypeVar("T")

# The amount requested from one script, so that none takes more than some milliseconds.
REGISTRATIONS_AT_ONCE = 20
ENTITIES_AT_ONCE = 300
EMISSIONS_AT_ONCE = 500


class RedisRoom:
    """Sends numbered requests, and repeats each with the same number until it is answered: a lost
    reply may have released something. Not thread-safe, but `known` may be read at any time."""

    def __init__(self, store: RedisEntityStore, bounds: Bounds) -> None:
        self._store = store
        self._bounds = [
            str(bounds.telemetry_limit),
            str(bounds.telemetry_per_entity),
            str(bounds.metadata_limit),
            str(bounds.pending_entities),
            str(max(1, round(in_seconds(bounds.max_age) * 1000))),
            str(int(bounds.auto_register)),
        ]
        self._reports: list[Report] = []
        self._remembered = Remembered(time.monotonic)
        self.known: dict[str, str] = self._remembered
        self.sequence = 0
        """Highest sequence number up to which this gate has received all releases."""
        self._begin()
        held = self._store.convert()
        if any(held):
            reason = "another version of the library held it"
            self._reports.append(Report(DROPPED, "", *held, reason=reason))
        self._ask(EVICT)  # so that an unusable place is noticed immediately

    @property
    def pending(self) -> int:
        """Number of waiting entities."""
        return self._look(()).pending

    @property
    def highest(self) -> int:
        """The highest sequence number that any gate was given."""
        return self._look(()).sequence

    def reports(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports

    def recount(self) -> None:
        """Return None: Redis holds it, and a script is carried out as a whole."""

    def offer(self, entity: str, message: Any, metadata: bool, now: float) -> list[Release]:
        if self._still_holds(entity):
            return [*self._set_free(), Release(entity, None, (message,))]
        sealed = sealed_text_of(entity, message)
        self._ask(OFFER, entity.encode(), sealed, str(int(metadata)))
        return self._set_free()

    def look_up(self, entities: Iterable[str]) -> None:
        """Cache those of `entities` that are registered."""
        left = [one for one in dict.fromkeys(entities) if not self._remembered.has(one)]
        while left:
            del left[: self._look(left[:ENTITIES_AT_ONCE]).answered]

    def register(self, registrations: Sequence[Registration], now: float) -> list[Release]:
        """Carry out registrations, as LocalRoom does; but those before a refused one are carried
        out."""
        words: list[str | bytes] = []
        for entity, parent, data in registrations:
            words += [entity.encode(), record_of(parent, data)]
        start = 0
        while start < len(registrations):
            some = words[2 * start : 2 * (start + REGISTRATIONS_AT_ONCE)]
            reply = self._ask(REGISTER, *some)
            start += reply.taken
            if reply.status == "cycle":
                refused = registrations[start]
                assert refused.parent is not None
                raise RegistrationCycleError(refused.entity, refused.parent)
        return self._set_free()

    def deregister(self, entity: str) -> list[str]:
        seen = len(self._reports)
        self._ask(DEREGISTER, entity.encode())
        return [one.entity for one in self._reports[seen:] if one.name == DEREGISTERED]

    def evict(self, now: float) -> int:
        """Drop what was held too long, by the server's clock."""
        seen = len(self._reports)
        while self._ask(EVICT).more:
            pass
        return sum(one.name == DROPPED for one in self._reports[seen:])

    def topmost(self, entity: str) -> str:
        highest = self._remembered.topmost(entity)
        if self._remembered.has(highest):
            return highest
        self._look([highest])
        return self._remembered.topmost(highest)

    def emitted(self, since: int) -> list[Stored]:
        found: list[Stored] = []
        mended = False
        while True:
            words = [*self._header("0"), str(since), str(EMISSIONS_AT_ONCE)]
            missing, *texts = map(text, self._mended(EMISSIONS, words, lambda answer: answer))
            if missing and not mended:
                self.evict(0)  # which repairs it
                mended = True
                continue
            rows = list(zip(texts[::3], texts[1::3], texts[2::3], strict=True))
            found += [
                Stored(int(float(number)), entity, record)
                for number, entity, record in rows
                if self._is_readable(entity, record)
            ]
            if len(rows) < EMISSIONS_AT_ONCE:
                return found
            since = int(float(rows[-1][0]))

    def close(self) -> None:
        self._store.close()

    # Private.

    def _begin(self) -> None:
        self._gate, self._process = new_gate(), os.getpid()
        self._requests = 0
        self._unanswered: _Request | None = None
        self._agenda = ""
        """The agenda that this gate has started and has not received completely."""
        self._portions: list[Piece] = []
        """The portions of the agenda received so far: another gate may still take it over."""
        self._passing: list[Piece] = []
        """Releases that are handed out after the agenda."""
        self._free: list[Piece] = []
        """Released, and not handed out yet."""

    def _set_free(self) -> list[Release]:
        free, self._free = self._free, []
        releases = []
        for one in free:
            release, reports = one.opened()
            releases.append(release)
            self._reports += reports
        return releases

    def _ask(self, script: Script, *arguments: str | bytes) -> GateReply:
        """Carry out a request completely, after the one begun before it. What it releases is added
        to the rest."""
        if self._process != os.getpid():
            # After a fork the requests of parent and child must not be taken for each other's.
            self._begin()
        if self._unanswered is not None:
            self._send(self._unanswered)
        self._continue()
        reply = self._new_request(script, *arguments)
        self._continue()
        if reply.status == "conflict":
            raise AutoRegistrationConflictError
        if reply.status == "full":
            raise self._store.full()
        return reply

    def _continue(self) -> None:
        while self._agenda:
            self._new_request(CONTINUE, self._agenda)

    def _new_request(self, script: Script, *arguments: str | bytes) -> GateReply:
        self._requests += 1
        return self._send(_Request(script, [*self._header(str(self._requests)), *arguments]))

    def _header(self, request: str) -> list[str | bytes]:
        return [self._gate, request, str(self._remembered.generation), *self._bounds]

    def _send(self, request: _Request) -> GateReply:
        self._unanswered = request
        sent = time.monotonic()
        try:
            reply = self._mended(*request, read)
        except EntityStoreError as error:
            if _was_refused(error):
                self._unanswered = None
            raise
        self._unanswered = None
        reply = self._follow(reply, sent)
        self._take(reply)
        return reply

    def _mended(
        self, script: Script, words: list[str | bytes], read: Callable[[list[Any]], T]
    ) -> T:
        """Run a script, and decode its reply; if that fails because stored data is damaged, have it
        repaired, and try again."""
        try:
            return read(self._run_twice(script, words))
        except UnreadableError:
            self._mend(None)
        except EntityStoreError as error:
            if not _is_damage(error):
                raise
            self._mend(error)
        try:
            return read(self._run_twice(script, words))
        except (UnreadableError, EntityStoreError) as error:
            if isinstance(error, EntityStoreError) and not _is_damage(error):
                raise
            raise EntityStoreError(
                f"what gate {self._store.name!r} has in Redis at {self._store.where} is damaged; "
                "forget it with RedisEntityStore.delete(), and have all entities registered again"
            ) from error.__cause__

    def _mend(self, error: EntityStoreError | None) -> None:
        try:
            reply = read(self._run_twice(MEND, self._header("0")))
        except UnreadableError:  # the next try reports it
            return
        self._reports += reply.reports
        if reply.wrong and error is not None:
            raise self._store.wrong_key(error, reply.wrong) from error.__cause__

    def _run_twice(self, script: Script, words: list[str | bytes]) -> list[Any]:
        """Run a script, twice if need be: a connection that was closed meanwhile is noticed only
        when it is used."""
        try:
            return self._store.run(script, words)
        except EntityStoreError as error:
            if _was_refused(error):
                raise
            return self._store.run(script, words)

    def _is_readable(self, entity: str, record: str) -> bool:
        try:
            registration_of(entity, record)
        except UnreadableError:
            reason = f"the registration of {entity!r} cannot be read; register it again"
            self._reports.append(Report(ERROR, entity, reason=reason))
            return False
        return True

    def _take(self, reply: GateReply) -> None:
        """Collect releases. Those of an agenda are handed out when all of it was received: until
        then another gate may take it over, and receive all of it."""
        self._reports += reply.reports
        self._passing += reply.free
        if reply.status == "gone":
            self._portions.clear()
        for portion in reply.portions:
            if portion.pieces and portion.pieces[0].continues:
                further = portion.pieces.pop(0)
                if self._portions:
                    self._portions[-1].texts += further.texts
            self._portions += portion.pieces
            if portion.is_last:
                self._free += self._portions
                self._portions.clear()
        self._agenda = reply.agenda
        if not reply.agenda:
            self._free += self._passing
            self._passing.clear()
            self.sequence = reply.sequence

    def _follow(self, reply: GateReply, sent: float) -> GateReply:
        """Update the cache. What is cached holds as of when the request was sent, without what was
        removed."""
        self._remembered.follow(reply, sent + self._store.refresh)
        if reply.generation != reply.newest:
            self._look(())  # there are more changes than one reply has
        return reply

    def _still_holds(self, entity: str) -> bool:
        """Whether `entity` is cached, and was not removed by the last check. Registered entities
        pass while Redis is away, too."""
        if self._remembered.has(entity) and not self._remembered.is_fresh:
            try:
                self._look(())
            except EntityStoreError as error:
                self._reports.append(Report(ERROR, "", reason=str(error)))
                self._remembered.fresh_until = time.monotonic() + self._store.refresh
        return self._remembered.has(entity)

    def _look(self, entities: Sequence[str]) -> GateReply:
        sent = time.monotonic()
        names = [one.encode() for one in entities]
        return self._follow(self._mended(LOOK, [*self._header("0"), *names], read), sent)


class _Request(NamedTuple):
    """A request, which is repeated until it is answered."""

    script: Script
    words: list[str | bytes]


def _is_damage(error: EntityStoreError) -> bool:
    """Whether a script has failed because of damaged stored data."""
    from redis.exceptions import ResponseError

    cause = error.__cause__
    return isinstance(cause, ResponseError) and ("WRONGTYPE" in str(cause) or not is_known(cause))


def _was_refused(error: EntityStoreError) -> bool:
    """Whether the server has answered with a refusal: then the request was not carried out, and
    never will be."""
    from redis.exceptions import ResponseError

    return isinstance(error.__cause__, ResponseError)
