"""A topic: its name, its keys, its buckets, and the replies of its scripts."""

from __future__ import annotations

import contextlib
import logging
import math
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from dispatcher.timeline._encoding import bodies
from dispatcher.timeline._encoding.layout import Layout
from dispatcher.timeline._server.server import EXISTS, SETTINGS, Server
from dispatcher.timeline.errors import (
    BucketCountError,
    TimelineError,
    TimelineUnavailableError,
)
from dispatcher.timeline.outcomes import MessageOutcome, NoAnswer, Status
from limiters._support.rate_limited_log import RateLimitedLog

BUCKETS = 64
"""Number of buckets of a new topic, if its first user does not set one."""

AT_ONCE = 100
"""Maximum number of messages that one script processes, so that none blocks Redis for long."""

BYTES_AT_ONCE = 1_048_576

KNOWN = 16
"""Number of times of each set of a bucket that consumers keep; fewer, if those are all."""

SEEN_FOR = 3.0
"""Seconds after which a program checks again that the topic still has the same settings."""

STATUSES = (None, *Status)

_ANSWER = struct.Struct("<BBdII")


class Answer(NamedTuple):
    """Answer of a script for one message; bucket.lua describes the codes."""

    code: int
    status: int
    time: float
    version: int
    attempts: int


class StoredSettings(NamedTuple):
    """The stored settings of a topic."""

    buckets: int
    remember_ms: int
    most_attempts: int


class Topic:
    """The state that producers and consumers of one topic share. Thread-safe."""

    def __init__(
        self,
        server: Server,
        layout: Layout,
        name: str,
        asked: tuple[int | None, int | None, int | None],
    ) -> None:
        self.server = server
        self.layout = layout
        self.name = name
        self._asked = asked
        self._settings: StoredSettings | None = None
        self._seen = -math.inf
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.timeline"))
        self.watch_lateness: tuple[Callable[[list[float]], object], ...] = ()
        """Called with how late messages were, in seconds, whenever some are leased."""

    @property
    def settings(self) -> StoredSettings:
        """Return the stored settings, at most some seconds old; store them if there are none.
        BucketCountError if the topic was created again with another number of buckets, since
        messages would be looked for in the wrong buckets."""
        if self._settings is None:
            self._settings = self._store(*self._asked)
            self._seen = time.monotonic()
        elif time.monotonic() >= self._seen + SEEN_FOR:
            self._seen = time.monotonic()  # without an answer too, which is noticed elsewhere
            with contextlib.suppress(TimelineUnavailableError):
                self.see(self.server.run(EXISTS, [self.layout.settings], ())[1])
        return self._settings

    def see(self, stored: Sequence[int]) -> None:
        """Process the settings that are stored now: 0 buckets if Redis has lost the topic, -1 if
        they were damaged. In both cases store them as they were, before another program stores
        different ones."""
        self._seen, had, found = time.monotonic(), self._settings, StoredSettings(*stored)
        if had is None:
            return
        try:
            if found.buckets < 1 or min(found) < 0:
                self._store(*had)
                if found.buckets == 0:
                    self._damped.log(
                        logging.WARNING,
                        "Redis at %s had lost the topic %r, with all its messages; it is stored "
                        "again, empty",
                        *(self.server.connection.where, self.name),
                        extra={"happening": "topic-lost", "topic": self.name},
                    )
            elif found.buckets != had.buckets:
                raise BucketCountError(self.name, had.buckets, found.buckets)
            else:
                self._settings = found
        except BucketCountError:
            self._seen = -math.inf  # the next caller is refused too
            raise

    def _store(
        self, buckets: int | None, remember_ms: int | None, most_attempts: int | None
    ) -> StoredSettings:
        """Store settings, and return those in force; None leaves one as it is."""
        others = ("" if it is None else it for it in (remember_ms, most_attempts))
        asked = [buckets or "", *others, BUCKETS]
        answer = self.server.run(SETTINGS, [self.layout.settings], asked)
        settings = StoredSettings(*map(int, answer[1:]))
        if settings.buckets < 1:
            raise TimelineUnavailableError(
                f"how many buckets the topic {self.name!r} has was damaged in Redis at "
                f"{self.server.connection.where}, under {self.layout.settings.decode()}; set once "
                "the number it was created with: buckets=..."
            )
        if buckets is not None and buckets != settings.buckets:
            raise BucketCountError(self.name, buckets, settings.buckets)
        return settings

    @property
    def buckets(self) -> int:
        return self.settings.buckets

    def tell_lateness(self, now_us: int, dues_ms: Iterable[int]) -> None:
        """Report that messages with these due times were leased, at this time of the server."""
        late = [max(0.0, now_us / 1e6 - due / 1000) for due in dues_ms]
        for tell in self.watch_lateness:
            try:
                tell(late)
            except Exception as error:
                self._damped.log(
                    logging.ERROR,
                    "the watcher of the lateness of %s raised",
                    self.name,
                    exc_info=error,
                    extra={
                        "happening": "lateness-watcher-raised",
                        "topic": self.name,
                        "error": type(error).__name__,
                    },
                )


def answers_of(blob: bytes) -> Iterator[Answer]:
    """Decode the answers of a script, one for each message."""
    return map(Answer._make, _ANSWER.iter_unpack(blob))


def body_of(stored: bytes) -> Any:
    """Return the body from a stored message; the owner's length and the owner precede it."""
    return bodies.decoded(stored[1 + owner_length(stored) :])


def owner_length(stored: bytes) -> int:
    """Return the length of the owner in a stored message; nothing may be stored of a message that
    another program has written."""
    return stored[0] if stored else 0


class Items:
    """The messages of a call, by bucket, in portions that one script may process.

    The caller keeps the places, and receives the outcomes in their order.
    """

    def __init__(self, count: int) -> None:
        self.outcomes: list[MessageOutcome | None] = [None] * count
        self._portions: dict[int, list[tuple[list[int], list[bytes]]]] = {}
        self._bytes: dict[int, int] = {}

    def add(self, place: int, bucket: int, text: bytes) -> None:
        """Add one message, as its script reads it."""
        portions = self._portions.setdefault(bucket, [])
        held = self._bytes.get(bucket, 0) + len(text)
        if not portions or len(portions[-1][0]) == AT_ONCE or held > BYTES_AT_ONCE:
            portions.append(([], []))
            held = len(text)
        self._bytes[bucket] = held
        portions[-1][0].append(place)
        portions[-1][1].append(text)

    def portions(self) -> Iterator[tuple[int, list[int], list[bytes]]]:
        """Return the bucket, the places and the texts of each portion."""
        for bucket, portions in self._portions.items():
            for places, texts in portions:
                yield bucket, places, texts

    def unanswered(self, names: Sequence[str], failed: Iterable[tuple[int, TimelineError]]) -> None:
        """Set NoAnswer for messages without an answer; raise if there is no answer at all."""
        errors = dict(failed)
        for place, error in errors.items():
            self.outcomes[place] = NoAnswer(names[place], str(error))
        if errors and all(type(outcome) is NoAnswer for outcome in self.outcomes):
            raise next(iter(errors.values()))

    def done(self) -> list[MessageOutcome]:
        """Return the outcome of each message."""
        return [outcome for outcome in self.outcomes if outcome is not None]
