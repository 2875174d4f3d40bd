"""Producer: creates messages, and may change them while no consumer has a lease on them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dispatcher.timeline._encoding import bodies, ids
from dispatcher.timeline._encoding.times import Moment, when
from dispatcher.timeline._reading.scanning import scan
from dispatcher.timeline._server.durability import Confirmed, Durably
from dispatcher.timeline._server.server import CREATE, OWNER
from dispatcher.timeline._server.topic import (
    STATUSES,
    Answer,
    Items,
    Topic,
    answers_of,
    body_of,
    owner_length,
)
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.message import Message, Snapshot
from dispatcher.timeline.outcomes import (
    AlreadyGone,
    Created,
    Deleted,
    Duplicate,
    Durability,
    Invalid,
    Leased,
    MessageOutcome,
    Moved,
    NotFound,
    NotOwner,
    TimeInPast,
    VersionConflict,
)
from limiters._support.validation import ArgumentError, Seconds, count

_CREATED = struct.Struct("<BdHI")
_OWNED = struct.Struct("<IBdI")
_LENGTHS = struct.Struct("<IH")

TOGETHER = 100
"""Number of messages with generated ids that are put into one bucket before the next one is used.
"""

Reference = str | tuple[str, int] | Created | Moved | Snapshot
"""A message: its id, or its id and the version that it must still have."""


Outcomes = list[MessageOutcome]
Page = tuple[list[Snapshot], str]


class Producer:
    """Creates messages on behalf of a `group`. All programs of the group may move, read and delete
    them as long as no consumer has a lease on them; others may not.

    Every method takes one message or many, and returns an outcome for each, in order. Each is
    processed completely or not at all, and an invalid one does not affect the others.
    TimelineUnavailableError is raised if Redis answers for none of them. All calls are idempotent.
    Thread-safe.

    >>> from dispatcher.timeline import Message, Timeline
    >>> from limiters.embedded import EmbeddedRedis
    >>> with EmbeddedRedis() as server:
    ...     producer = Timeline(server.url, "mails").producer("signup")
    ...     [created] = producer.create([Message("welcome", delay=3_600, id="user-7")])
    ...     [again] = producer.create([Message("welcome", delay=3_600, id="user-7")])
    ...     [gone] = producer.delete(["user-7"])
    >>> created.ok, again.status, gone
    (True, <Status.WAITING: 'waiting'>, Deleted(id='user-7'))
    """

    def __init__(self, topic: Topic, group: str, owner: bytes, durably: Durably) -> None:
        self._topic = topic
        self.group = group
        self._owner = owner
        self._durably = durably
        self._turn = random.randrange(ids.MOST_BUCKETS)

    def __repr__(self) -> str:
        return f"Producer({self.group!r}, of {self._topic.name!r})"

    def create(
        self, messages: Iterable[Message] | Message, *, durability: Durability | None = None
    ) -> Outcomes:
        """Return Created, Duplicate or Invalid for each. Messages without an id get one.

        `durability` is what to wait for; by default the strongest that the server offers. The
        outcome has what was confirmed in time; a message that was not confirmed exists all the
        same.
        """
        messages = _messages(messages)
        items = Items(len(messages))
        for place, (message, bucket) in enumerate(self._placed(messages)):
            if isinstance(bucket, Invalid):
                items.outcomes[place] = bucket
                continue
            try:
                relative, due = when(message.at, message.delay)
                body = bodies.encoded(message.body)
            except ArgumentError as error:
                items.outcomes[place] = Invalid(_name(message), str(error))
                continue
            name = ids.as_bytes(message.id or "")
            head = _CREATED.pack(relative, due, len(name), len(body))
            items.add(place, bucket, head + name + body)
        names = [_name(message) for message in messages]
        portions = list(items.portions())
        calls = [
            (self._topic.layout.keys(bucket), self._arguments(bucket, b"".join(texts)))
            for bucket, _, texts in portions
        ]
        failed: list[tuple[int, TimelineError]] = []
        confirmed = self._durably.run(CREATE, calls, durability)
        for (_, places, _), answer in zip(portions, confirmed, strict=True):
            if isinstance(answer, TimelineError):
                failed += [(place, answer) for place in places]
            else:
                self._note_created(items, names, places, answer)
        items.unanswered(names, failed)
        return items.done()

    def move(
        self,
        messages: Iterable[Reference] | Reference,
        *,
        at: Moment | None = None,
        delay: Seconds | None = None,
    ) -> Outcomes:
        """Make messages due `at` a time from now on, or after a `delay` from now; a dead one lives
        again.

        Return Moved, TimeInPast, NotFound, NotOwner, Leased or VersionConflict for each.
        """
        relative, due = when(at, delay)
        return self._change(b"move", messages, relative, due)

    def delete(self, messages: Iterable[Reference] | Reference) -> Outcomes:
        """Delete messages, dead ones too.

        Return Deleted, AlreadyGone (if the id is remembered), NotFound, NotOwner, Leased or
        VersionConflict for each.
        """
        return self._change(b"delete", messages)

    def get(self, messages: Iterable[Reference] | Reference) -> Outcomes:
        """Read messages. Return Snapshot, NotFound, NotOwner, Leased or VersionConflict for
        each."""
        return self._change(b"get", messages)

    def list(self, limit: int = 100, cursor: str = "") -> Page:
        """Return a page of about `limit` messages of the group, and a cursor for the next call; ""
        after the last page. The order is arbitrary. Messages that exist all the time are listed,
        others may be; one may be listed twice. It examines all messages of the topic, some
        thousands a page: if most belong to other groups, a page may be short, or empty."""
        return scan(self._topic, self._owner, count("limit", limit), cursor)

    def _placed(self, messages: Sequence[Message]) -> Iterator[tuple[Message, int | Invalid]]:
        """Add the bucket to each. Messages without an id go together, so that few scripts are
        run."""
        buckets = self._topic.buckets
        nameless = sum(1 for message in messages if message.id is None)
        names: list[str] = []
        for message in messages:
            if message.id is None:
                if not names:
                    portion = min(nameless, TOGETHER)
                    nameless -= portion
                    self._turn += 1
                    now_ms = int(self._topic.server.clock.now_ms())
                    names = ids.generated(self._turn % buckets, now_ms, portion)
                message.id = names.pop()
            try:
                yield message, ids.bucket_of(message.id, buckets)
            except ArgumentError as error:
                yield message, Invalid(_name(message), str(error))

    def _arguments(self, bucket: int, text: bytes) -> Sequence[bytes]:
        return [self._topic.layout.channel, b"%d" % bucket, self._owner, text]

    def _note_created(
        self, items: Items, names: Sequence[str], places: Sequence[int], answer: Confirmed
    ) -> None:
        for place, said in zip(places, answers_of(answer.said[1]), strict=True):
            name = names[place]
            if said.code == 1:
                outcome: MessageOutcome = Created(
                    name, int(said.time), said.version, answer.durability
                )
            else:
                status = STATUSES[said.status]
                assert status is not None
                outcome = Duplicate(name, status, int(said.time), said.version, said.attempts)
            items.outcomes[place] = outcome

    def _change(
        self,
        action: bytes,
        messages: Iterable[Reference] | Reference,
        relative: bool = True,
        due: int = 0,
    ) -> Outcomes:
        given = list(given_in(messages))
        references = list(map(_reference, given))
        names = [name if isinstance(name, str) else repr(name) for name, _ in references]
        items = Items(len(references))
        for place, (name, version) in enumerate(references):
            try:
                bucket, written = self._place_of(given[place], name)
                head = _OWNED.pack(_checked(version), relative, due, len(written))
                items.add(place, bucket, head + written)
            except ArgumentError as error:
                items.outcomes[place] = Invalid(names[place], str(error))
        remember_ms = self._topic.settings.remember_ms
        failed: list[tuple[int, TimelineError]] = []
        left = list(items.portions())
        while left:
            calls = []
            for bucket, _, texts in left:
                told = [action, remember_ms, b"".join(texts)]
                keys = self._topic.layout.keys(bucket)
                calls.append((keys, [self._topic.layout.channel, bucket, self._owner, *told]))
            answers = self._topic.server.run_each(OWNER, calls)
            further = []
            for (bucket, places, texts), answer in zip(left, answers, strict=True):
                if isinstance(answer, TimelineError):
                    failed += [(place, answer) for place in places]
                    continue
                done = self._note_changed(items, names, action, places, answer)
                if done < len(places):
                    further.append((bucket, places[done:], texts[done:]))
            left = further
        items.unanswered(names, failed)
        return items.done()

    def _place_of(self, reference: object, name: str) -> tuple[int, bytes]:
        """Return the bucket of a message, and its id as it is stored there."""
        if isinstance(reference, Snapshot) and reference._place is not None:
            return reference._place[:2]
        return ids.bucket_of(name, self._topic.buckets), ids.as_bytes(name)

    def _note_changed(
        self,
        items: Items,
        names: Sequence[str],
        action: bytes,
        places: Sequence[int],
        answer: Sequence[bytes],
    ) -> int:
        bodies, at, done = answer[2], 0, 0
        for place, said in zip(places, answers_of(answer[1]), strict=False):
            stored, why = b"", ""
            if said.code == 1 and action == b"get":
                length, why_length = _LENGTHS.unpack_from(bodies, at)
                at += _LENGTHS.size + length + why_length
                stored = bodies[at - length - why_length : at - why_length]
                why = ids.as_text(bodies[at - why_length : at])
            items.outcomes[place] = _changed(names[place], action, said, stored, why)
            done += 1
        return done


def _changed(name: str, action: bytes, said: Answer, stored: bytes, why: str) -> MessageOutcome:
    code, status, time, version, attempts = said
    if code == 1:
        if action == b"move":
            return Moved(name, int(time), version)
        if action == b"delete":
            return Deleted(name)
        found = STATUSES[status]
        assert found is not None
        group = ids.as_text(stored[1 : 1 + owner_length(stored)])
        facts = int(time), version, attempts, group, why
        return Snapshot(name, body_of(stored), found, *facts)
    if code == 5:
        return Leased(name, int(time))
    if code == 6:
        return VersionConflict(name, version)
    if code == 9:
        return TimeInPast(name, int(time))
    if code == 11:
        return Invalid(name, "its body was lost, so it cannot be leased; delete it")
    return {3: NotFound, 4: NotOwner, 10: AlreadyGone}[code](name)


def _messages(messages: Iterable[Message] | Message) -> list[Message]:
    given = [messages] if isinstance(messages, Message) else list(messages)
    for message in given:
        if not isinstance(message, Message):
            raise ArgumentError("messages", message, "be Messages", "Message(body, delay=60)")
    return given


def references_in(messages: object) -> list[tuple[Any, Any]]:
    """Return the id of each, and the version that it must have; None for any. Pure.

    >>> references_in(("a", 1)), references_in(["a", ("b", 2)]), references_in(("a", "b"))
    ([('a', 1)], [('a', None), ('b', 2)], [('a', None), ('b', None)])
    """
    return list(map(_reference, given_in(messages)))


def given_in(messages: object) -> list[object]:
    """Return a list, also of a single message. Pure.

    A pair of an id and a number is one message at that version. A value that could also be two ids
    is refused.
    """
    if isinstance(messages, (str, Created, Moved, Snapshot)) or is_pair(messages):
        return [messages]
    if not isinstance(messages, Iterable) or isinstance(messages, (bytes, bytearray)):
        raise ArgumentError("messages", messages, "be an id, or several of them in a list")
    given: list[object] = list(messages)
    if is_pair(tuple(given)):
        one = tuple(given)
        advice = f"one message at a version is {one!r}, or [{one!r}]"
        raise ArgumentError("messages", given, "be no list of an id and a number", advice)
    return given


def is_pair(message: object) -> bool:
    """Whether it is an id and a number."""
    return (
        isinstance(message, tuple)
        and len(message) == 2
        and isinstance(message[0], str)
        and isinstance(message[1], (int, float))
    )


def _reference(message: object) -> tuple[Any, Any]:
    if isinstance(message, tuple) and len(message) == 2:
        return message
    if isinstance(message, (Created, Moved, Snapshot)):
        return message.id, message.version
    return message, None  # another value is reported as a bad id later


def _checked(version: object) -> int:
    """Return a version as its script reads it; 0 for any."""
    if version is None:
        return 0
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < 2**32:
        raise ArgumentError("version", version, "be a whole number, 0 for any")
    return version


def _name(message: Message) -> str:
    return message.id if isinstance(message.id, str) else repr(message.id)
