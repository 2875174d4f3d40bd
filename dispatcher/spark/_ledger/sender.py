"""A task's leave to send: asked for, prolonged, and used to write down what was acknowledged."""

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
"""Of its lease a task uses so much: its clock may be slower than the server's."""
RENEWALS = 4
"""How often in a lease it is prolonged."""
MOST_TOGETHER = 500
"""How many sequences are written down, or looked up, with one call. What belongs together is
written with one call however much it is."""


@dataclass(frozen=True, slots=True)
class _Post:
    """What is to be written: all of it or nothing."""

    fields: Mapping[bytes, bytes]
    written: Future[None] = field(default_factory=Future)


class Sender:
    """Of two tasks that would send the same, only one has leave at a time, and none of an older
    epoch has leave once one of a newer one has.

    Leave lasts as long as the task says that it is alive. What has begun when a newer epoch is
    claimed may end and is written down; nothing more begins. Thread-safe.
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
            # Another attempt at the same part still sends; then we find what it has written.
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
        """A handler does not return: nobody is to take our place before leave runs out by itself,
        and this process is gone."""
        self._lingers = True

    def look_up(self, sequences: Sequence[bytes]) -> dict[bytes, LedgerEntry]:
        """What is remembered of each of `sequences`."""
        return look_up(self._redis, self._claim, sequences)

    def may_begin(self) -> bool:
        """Whether something may be sent now. Raises if nothing may be sent any more."""
        if self._problem is not None:
            raise self._problem.again()
        return time.monotonic() < self._until

    def acknowledge(self, entries: Mapping[bytes, LedgerEntry]) -> Future[None]:
        """Has the entries of a batch written down, all of them or none; done when they are, or
        cannot be."""
        return self._post({sequence: entry.written() for sequence, entry in entries.items()})

    def divide(self, pack: bytes) -> Future[None]:
        """Has it written down that the subjects of `pack` are sent one by one from now on."""
        return self._post({_division_of(pack): self._divided})

    def is_divided(self, pack: bytes) -> bool:
        """Whether that was written down in this micro-batch."""
        return self._redis.look_up(self._claim.sequences(), [_division_of(pack)]) == [self._divided]

    # Inside.

    @property
    def _divided(self) -> bytes:
        return b"!%d" % self._claim.batch  # begins unlike an entry, so that none is counted

    def _post(self, fields: Mapping[bytes, bytes]) -> Future[None]:
        post = _Post(fields)
        # A caller that waits for it may be cancelled: it is written all the same.
        post.written.set_running_or_notify_cancel()
        self._posts.put(post)
        return post.written

    def _join(self) -> float:
        """Asks for leave, or prolongs it; for how many seconds somebody else has it."""
        asked = time.monotonic()
        status, *said = self._redis.ask(JOIN, self._keys, *self._me, self._lease_ms, KEPT_MS)
        if status == "wait":
            return max(0.001, int(said[0]) / 1000)
        self._told(status, asked)
        return 0.0

    def _told(self, status: str, asked: float) -> None:
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
                f"{claim.place.query!r} has sent it, while this one hung: it has stopped"
            )
        return SupersededError(
            f"another run of query {claim.place.query!r} sends by now: this task of micro-batch "
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
            if not isinstance(error, SparkSinkError):  # a defect of ours must not leave others wait
                error = LedgerError(f"what was sent could not be written down: {error!r}")
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
                return self._told(status, asked)
            # The server was away for too long, or we were. Unless somebody has taken our place
            # meanwhile, we take it again.
            taken = self._join() > 0
            if self._problem is not None:
                raise self._problem.again()
            if taken:
                raise LedgerError(
                    f"{len(posts)} batches of query {self._claim.place.query!r} were sent, and "
                    "it could not be written down, since another task sends in the place of "
                    "this one: they may be sent again"
                )


def look_up(redis: Redis, claim: SendClaim, sequences: Sequence[bytes]) -> dict[bytes, LedgerEntry]:
    """What is remembered of each of `sequences`. It needs no leave to send. LedgerError if
    something of it was damaged: what was sent is not known then."""
    found: dict[bytes, LedgerEntry] = {}
    for start in range(0, len(sequences), MOST_TOGETHER):
        some = sequences[start : start + MOST_TOGETHER]
        for turns_ago in (1, 0):  # what is newer replaces what is older
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
            f"what query {claim.place.query!r} has sent of a sequence is damaged in Redis at "
            f"{claim.place.where}: {error}. Restore it, or delete the field {sequence!r} of {key}: "
            "then rows of that sequence may be sent again"
        ) from error


def _division_of(pack: bytes) -> bytes:
    """The field that says it of `pack`: no name of a sequence begins like it."""
    return b"!" + pack


def _settle(posts: Iterable[_Post], error: SparkSinkError | None) -> None:
    for post in posts:
        if error is None:
            post.written.set_result(None)
        else:
            post.written.set_exception(error.again())
