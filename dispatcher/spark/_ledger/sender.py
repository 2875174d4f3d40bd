"""A task's send permission: it is requested, renewed, and used to store acknowledgements."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import TracebackType

from dispatcher.spark._ledger.claims import (
    ACKNOWLEDGE,
    JOIN,
    KEPT_MS,
    LEAVE,
    Redis,
    SendClaim,
    kept_ms,
)
from dispatcher.spark._ledger.entry import LedgerEntry
from dispatcher.spark.errors import LedgerError, SparkSinkError, SupersededError

MARGIN = 0.9
"""The part of its lease that a task uses: its clock may be slower than the server's."""
RENEWALS = 4
"""How often the send permission is renewed in one lease."""
MOST_TOGETHER = 500
"""How many sequences are stored, or looked up, with one call. The entries of one batch are always
stored with one call."""


@dataclass(frozen=True, slots=True)
class _Post:
    """Fields to store, all of them or none."""

    fields: Mapping[bytes, bytes]
    written: Future[None] = field(default_factory=Future)


class Sender:
    """The send permission of a task. Of two tasks that would send the same rows only one has it at
    a time, and no task of an older epoch has it once a task of a newer epoch has.

    The permission lasts as long as the task renews it. Batches that are under way when a newer
    epoch is claimed may end and are stored; no more are begun. Thread-safe.
    """

    def __init__(self, claim: SendClaim, slot: str, patience: float) -> None:
        self._claim = claim
        self._redis = Redis(claim.place, patience)
        self._me = (claim.epoch, slot, uuid.uuid4().hex)
        self._lease_ms = round(claim.lease * 1000)
        self._kept_ms = kept_ms(claim.remember)
        self._two_turns_ms = round(claim.remember * 2000)
        self._keys = [claim.place.key("fence"), claim.place.key("senders")]
        self._until = 0.0
        self._lingers = False
        self._problem: SparkSinkError | None = None
        self._posts: queue.SimpleQueue[_Post | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="dispatcher-ledger", daemon=True)

    def __enter__(self) -> Sender:
        while (wait := self._join()) > 0:
            # Another attempt at the same part still sends; this one then finds what it has stored.
            time.sleep(min(wait, 0.1))
        if self._problem is not None:
            raise self._problem.again()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._posts.put(None)
        self._thread.join()
        if not self._lingers:
            with contextlib.suppress(LedgerError):  # then it runs out by itself
                self._redis.ask(LEAVE, self._keys[1:], *self._me)
        self._redis.close()

    def linger(self) -> None:
        """Keep the send permission until it expires by itself, since a handler does not return. No
        other task may send these rows before this process has gone."""
        self._lingers = True

    def look_up(self, sequences: Sequence[bytes]) -> dict[bytes, LedgerEntry]:
        """Return the entry of each of `sequences`."""
        return look_up(self._redis, self._claim, sequences)

    def may_begin(self) -> bool:
        """Whether a batch may be sent now. Raises if no more may be sent at all."""
        if self._problem is not None:
            raise self._problem.again()
        return time.monotonic() < self._until

    def acknowledge(self, entries: Mapping[bytes, LedgerEntry]) -> Future[None]:
        """Store the entries of a batch, all of them or none. The future is done when they are
        stored, or cannot be."""
        return self._post({sequence: entry.written() for sequence, entry in entries.items()})

    def divide(self, pack: bytes) -> Future[None]:
        """Store that the subjects of `pack` are sent one by one from now on."""
        return self._post({_division_of(pack): self._divided})

    def is_divided(self, pack: bytes) -> bool:
        """Whether `divide` was called for `pack` in this micro-batch."""
        return self._redis.look_up(self._claim.sequences(), [_division_of(pack)]) == [self._divided]

    # Inside.

    @property
    def _divided(self) -> bytes:
        return b"!%d" % self._claim.batch  # begins unlike an entry, so that none is counted

    def _post(self, fields: Mapping[bytes, bytes]) -> Future[None]:
        post = _Post(fields)
        # A caller that waits for it may be cancelled: the fields are stored in any case.
        post.written.set_running_or_notify_cancel()
        self._posts.put(post)
        return post.written

    def _join(self) -> float:
        """Request the send permission, or renew it. Return for how many seconds another task has
        it."""
        asked = time.monotonic()
        status, *said = self._redis.ask(JOIN, self._keys, *self._me, self._lease_ms, KEPT_MS)
        if status == "wait":
            return max(0.001, int(said[0]) / 1000)
        self._note(status, asked)
        return 0.0

    def _note(self, status: str, asked: float) -> None:
        if status == "ok":
            self._until = asked + self._claim.lease * MARGIN
        else:
            self._problem = self._problem or self._meaning(status)

    def _meaning(self, status: str) -> SparkSinkError:
        claim = self._claim
        if status == "forgotten":
            return LedgerError(
                f"Redis at {claim.place.where} has lost what query {claim.place.query!r} had sent "
                f"of micro-batch {claim.batch}: it is sent again from its start. Let Redis keep "
                "its data (appendonly yes), and evict nothing (maxmemory-policy noeviction)"
            )
        if status == "replaced":
            return SupersededError(
                f"another attempt at the same part of micro-batch {claim.batch} of query "
                f"{claim.place.query!r} has sent rows while this one hung, so this one has stopped"
            )
        return SupersededError(
            f"a newer run of query {claim.place.query!r} sends: this task of micro-batch "
            f"{claim.batch} has stopped"
        )

    def _run(self) -> None:
        going = True
        while going:
            try:
                posts = [self._posts.get(timeout=self._claim.lease / RENEWALS)]
            except queue.Empty:
                posts = []
            while sum(len(post.fields) for post in posts if post is not None) < MOST_TOGETHER:
                try:
                    posts.append(self._posts.get_nowait())
                except queue.Empty:
                    break
            going = None not in posts
            self._carry_out([post for post in posts if post is not None])

    def _carry_out(self, posts: list[_Post]) -> None:
        try:
            if posts:
                self._write(posts)
            else:
                self._join()
        except Exception as error:
            if not isinstance(error, SparkSinkError):  # a bug must not leave callers waiting
                error = LedgerError(f"acknowledgements could not be stored: {error!r}")
            self._problem = self._problem or error
            _settle(posts, error)
        else:
            _settle(posts, None)

    def _write(self, posts: list[_Post]) -> None:
        words = [word for post in posts for field in post.fields.items() for word in field]
        keys = [*self._keys, self._claim.sequences(), self._claim.sequences(turns_ago=1)]
        keys.append(self._claim.stream)
        kept = (self._kept_ms, self._two_turns_ms)
        while True:
            asked = time.monotonic()
            arguments = (*self._me, self._lease_ms, *kept, *words)
            (status,) = self._redis.ask(ACKNOWLEDGE, keys, *arguments)
            if status != "lost":
                return self._note(status, asked)
            # The server or this process did not respond for too long, and the permission expired.
            # Request it again; it is refused if another task has sent in the meantime.
            taken = self._join() > 0
            if self._problem is not None:
                raise self._problem.again()
            if taken:
                raise LedgerError(
                    f"{len(posts)} batches of query {self._claim.place.query!r} were sent, but "
                    "could not be acknowledged, since another task now sends in place of "
                    "this one: they may be sent again"
                )


def look_up(redis: Redis, claim: SendClaim, sequences: Sequence[bytes]) -> dict[bytes, LedgerEntry]:
    """Return the entry of each of `sequences`. No send permission is needed. LedgerError if an
    entry is damaged, since then it is unknown what was sent."""
    found: dict[bytes, LedgerEntry] = {}
    for start in range(0, len(sequences), MOST_TOGETHER):
        some = sequences[start : start + MOST_TOGETHER]
        for turns_ago in (1, 0):  # newer entries replace older ones
            key = claim.sequences(turns_ago)
            for sequence, text in zip(some, redis.look_up(key, some), strict=True):
                if text is not None or turns_ago:
                    found[sequence] = _entry(text, claim, key, sequence)
    return found


def _entry(text: bytes | None, claim: SendClaim, key: str, sequence: bytes) -> LedgerEntry:
    try:
        return LedgerEntry.read(text)
    except ValueError as error:
        raise LedgerError(
            f"the ledger of query {claim.place.query!r} is damaged in Redis at "
            f"{claim.place.where}: {error}. Restore it, or delete the field {sequence!r} of {key}: "
            "then rows of that sequence may be sent again"
        ) from error


def _division_of(pack: bytes) -> bytes:
    """Return the field of `pack`. No name of a sequence begins with its first byte."""
    return b"!" + pack


def _settle(posts: Iterable[_Post], error: SparkSinkError | None) -> None:
    for post in posts:
        if error is None:
            post.written.set_result(None)
        else:
            post.written.set_exception(error.again())
