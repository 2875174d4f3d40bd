"""Claims of micro-batches: a run of a query claims one, and the tasks of the last claim may
send."""

from __future__ import annotations

import math
import os
import socket
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from dispatcher.spark._ledger.division import PLAIN, Division
from dispatcher.spark.errors import (
    ChangedSinkError,
    LedgerError,
    MovedCheckpointError,
    SupersededError,
)
from limiters._redis.acl import Needs
from limiters._redis.client import RedisConnection
from limiters._redis.faults import in_words
from limiters._redis.runner import Key, ScriptRunner
from limiters._redis.script import Script, from_files
from limiters._redis.url import checked, without_secrets

NEEDS = Needs(
    "+evalsha +eval +get +hget +hincrbyfloat +hmget +hset +pexpire +set "
    "+time +zadd +zrangebyscore +zremrangebyscore +zscore"
)

FORMAT = "v1"
TIMEOUT = 1.0
"""The longest time for each step of a call, in seconds."""
KEPT_MS = 90 * 86_400_000
"""How long Redis keeps a query and its checkpoint after the last claim."""
INTRODUCE_AGAIN = 86_400.0
"""Seconds after which a run registers its query again."""


def _script(name: str) -> Script:
    return from_files(__package__, "fence", name)


CLAIM, JOIN, ACKNOWLEDGE, WAIT, FINISH, LEAVE, INTRODUCE = map(
    _script, ("claim", "join", "acknowledge", "wait", "finish", "leave", "introduce")
)


@dataclass(frozen=True, slots=True)
class Place:
    """The Redis and the keys of a query's ledger. Plain values, which can be sent to executors."""

    url: str = field(repr=False)  # it may hold a password
    prefix: str
    query: str
    checkpoint: str = ""
    """The id that Spark keeps in the checkpoint; empty where Spark does not provide it."""

    def key(self, *parts: str) -> str:
        """Return a key of this query.

        >>> Place("redis://db", "dispatcher", "orders {eu}").key("fence")
        'dispatcher:spark:v1:{orders%20%7Beu%7D}:fence'
        """
        return ":".join((f"{self.prefix}:spark:{FORMAT}:{{{quote(self.query, safe='')}}}", *parts))

    @property
    def where(self) -> str:
        """The URL of the Redis without its password, for messages."""
        return without_secrets(checked(self.url))


def kept_ms(remember: float) -> int:
    """Return how long a query is stored whose subjects are remembered for `remember` seconds."""
    return max(KEPT_MS, round(remember * 2000))


def known_queries(prefix: str) -> str:
    """Return the key of the sorted set of all queries, with the time of each one's last claim."""
    return f"{prefix}:spark:{FORMAT}:known"


@dataclass(frozen=True, slots=True)
class SendClaim:
    """One micro-batch, claimed by one run. Plain values, which can be sent to executors."""

    place: Place
    batch: int
    epoch: str
    generation: str
    turn: int
    lease: float
    """How many seconds a task may send after it last renewed its send permission."""
    remember: float
    acknowledged: int = 0
    """The number of sequences of which rows of this micro-batch were acknowledged before this
    claim."""
    division: Division | None = None
    """How the micro-batch is divided into batches of several subjects; None: each batch has one."""

    def sequences(self, turns_ago: int = 0) -> str:
        """Return the key of the entries of the sequences."""
        turn = str(self.turn - turns_ago)
        return self.place.key("sequences", self.place.checkpoint, self.generation, turn)

    @property
    def stream(self) -> str:
        """The key of the stream's state."""
        return self.place.key("stream", self.place.checkpoint)


class Redis:
    """The Redis that keeps ledgers. Thread-safe."""

    def __init__(self, place: Place, patience: float) -> None:
        self._place = place
        connection = RedisConnection(place.url, TIMEOUT)
        self._runner = ScriptRunner(connection, self._explained, patience=patience)

    def ask(self, script: Script, keys: list[str], *arguments: Any) -> list[Any]:
        """Run `script` and return its reply. The request is sent again until Redis replies;
        LedgerError if it does not within `patience` seconds."""
        said = self._runner.run(script, keys, arguments)
        return [one.decode() if isinstance(one, bytes) else one for one in said]

    def look_up(self, key: str, fields: Sequence[bytes]) -> list[bytes | None]:
        """Return the values of `fields` of the hash `key`, with the same retries as `ask`."""
        read: list[bytes | None] = self._runner.ask(lambda client: client.hmget(key, fields), key)
        return read

    def introduce(self, place: Place) -> None:
        """Register the query as the owner of its checkpoint. MovedCheckpointError if the checkpoint
        belongs to another query."""
        self.ask(INTRODUCE, [known_queries(place.prefix)], place.query, KEPT_MS)
        if not place.checkpoint:
            return
        key = f"{place.prefix}:spark:{FORMAT}:checkpoint:{place.checkpoint}"
        # NX together with GET in one command would need Redis 7.
        self._runner.ask(lambda it: it.set(key, place.query, nx=True, px=KEPT_MS), key)
        owner = self._runner.ask(lambda it: it.get(key), key)
        if owner is not None and owner.decode() != place.query:
            raise MovedCheckpointError(
                f"the checkpoint of query {place.query!r} belongs to the sink of query "
                f"{owner.decode()!r}: what was sent from it would be sent again. Give the sink "
                "that query name, or this query a checkpoint of its own"
            )
        self._runner.ask(lambda it: it.pexpire(key, KEPT_MS), key)

    def close(self) -> None:
        self._runner.connection.close()

    def _explained(self, error: Exception, key: Key) -> LedgerError:
        said = in_words(error, self._place.where, key, NEEDS, self._place.prefix)
        return LedgerError(
            f"the ledger of query {self._place.query!r} cannot be read or written: {said}"
        )


@dataclass
class QueryRun:
    """One run of a query, on its driver. It claims one micro-batch after the other."""

    token: str = ""
    """Spark's id of the run; empty where there is no stream, or Spark does not provide it."""
    epoch: str = "0"
    """The epoch of the last claim."""
    _introduced: float = -math.inf

    def claim(
        self,
        redis: Redis,
        place: Place,
        batch: int,
        *,
        signature: str,
        time_kind: str,
        lease: float,
        remember: float,
        division: Division | None = None,
    ) -> SendClaim:
        """Claim `batch`, and wait until no task of an older claim may send for the query. A new
        batch is divided by `division`; a batch that was begun before is divided as it was then. If
        `division` is None, each batch has one subject in any case. MovedCheckpointError if the
        checkpoint belongs to another query."""
        if time.monotonic() - self._introduced >= INTRODUCE_AGAIN:
            redis.introduce(place)
            self._introduced = time.monotonic()
        keys = [place.key("fence"), place.key("senders"), place.key("stream", place.checkpoint)]
        status, *said = redis.ask(
            CLAIM,
            keys,
            uuid.uuid4().hex,
            self.token,
            self.epoch,
            place.checkpoint,
            batch,
            signature,
            time_kind,
            f"{socket.gethostname()}:{os.getpid()}",
            round(remember * 1000),
            kept_ms(remember),
            PLAIN if division is None else division.written(),
        )
        if status != "ok":
            raise _refused(status, said, place, batch, signature, time_kind)
        epoch, generation, turn, wait_ms, acknowledged, divided = said
        self.epoch = epoch
        while int(wait_ms) > 0:
            # Most tasks of older claims soon end and give up their send permission.
            time.sleep(min(int(wait_ms) / 1000, 0.1))
            status, *said = redis.ask(WAIT, keys, epoch)
            if status != "ok":
                raise _superseded(place, "another run")
            wait_ms, acknowledged = said
        try:
            numbers = int(turn), int(acknowledged)
            if division is not None:
                division = Division.read(divided)
        except ValueError:
            raise LedgerError(
                f"the ledger of query {place.query!r} is damaged in Redis at {place.where}: "
                f"restore {keys[2]}, or delete it and start with a new checkpoint"
            ) from None
        return SendClaim(
            place, batch, epoch, generation, numbers[0], lease, remember, numbers[1], division
        )


def finish(redis: Redis, claim: SendClaim, sums: dict[str, float]) -> None:
    """Store that the micro-batch has ended, and add its sums to those of the query."""
    place = claim.place
    keys = [place.key("fence"), place.key("stream", place.checkpoint), place.key("totals")]
    words = [word for name, number in sums.items() for word in (name, repr(float(number)))]
    redis.ask(FINISH, keys, claim.epoch, claim.batch, KEPT_MS, *words)


def _refused(
    status: str, said: list[Any], place: Place, batch: int, signature: str, time_kind: str
) -> SupersededError | ChangedSinkError:
    query = place.query
    if status == "changed":
        return ChangedSinkError(
            f"micro-batch {batch} of query {query!r} was begun by another sink ({said[0]}), and "
            f"this one ({signature}) would cut it in another way, so it is unknown which rows were "
            "sent. Let the old sink finish it, or start with a new checkpoint; outside a "
            "stream, give it another name"
        )
    if status == "other_time":
        return ChangedSinkError(
            f"the time by which query {query!r} sends was a {said[0]} so far, and is a {time_kind} "
            "now: against what was sent, all rows would be late, or none. Cast it to what it was, "
            "or start with a new checkpoint; outside a stream, give it another name"
        )
    if status == "sent":
        return SupersededError(
            f"micro-batch {batch} of query {query!r} has been sent already in this run, and more "
            "rows would be taken for a replay of it. Give a sink all rows of a micro-batch in one "
            "call, and start a query of its own for each further sink"
        )
    if status == "behind":
        return SupersededError(
            f"micro-batch {batch} of query {query!r} is long over: its checkpoint is at "
            f"{said[0]} elsewhere. Does the query run twice, or was its checkpoint restored?"
        )
    return _superseded(place, *said)


def _superseded(
    place: Place, label: str, checkpoint: str = "", ago_ms: int | str = 0
) -> SupersededError:
    other = ""
    if checkpoint and checkpoint != place.checkpoint:
        other = f", with another checkpoint ({checkpoint})"
    return SupersededError(
        f"another run of query {place.query!r} has begun to send ({label}{other}, "
        f"{int(ago_ms) / 1000:g} s ago), so this one has stopped. If both are meant to run, give "
        "each sink a query name of its own"
    )
