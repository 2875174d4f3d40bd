"""RedisLeaseManager: the leases of a limit that many processes share, kept in Redis."""

from __future__ import annotations

import uuid
from shlex import quote
from typing import TYPE_CHECKING, Any

from limiters._redis.acl import Needs
from limiters._redis.client import RedisConnection
from limiters._redis.faults import in_words
from limiters._redis.runner import Key, ScriptRunner
from limiters._redis.script import Script
from limiters._support.signatures import lists, takes
from limiters._support.validation import in_seconds, text
from limiters.errors import DamagedLimitError, ImproperOrderError, LeaseManagerError
from limiters.leases._codec import (
    UNREADABLE,
    FormatError,
    arguments_of,
    as_text,
    change_of,
    floats_in,
    limit_of,
    pairs,
    raw,
    reply_of,
)
from limiters.leases._format import DEFAULT_SPAN, FORMAT
from limiters.leases._messages import Kind, Reply, Request, Terms, as_bytes, check_partitions
from limiters.leases._operator import TermsChange
from limiters.leases._options import RedisLeaseOptions
from limiters.leases._scripts import (
    DELETE,
    DELETE_OLD,
    EVICT,
    LOOK,
    MARK,
    OLD_FORMAT,
    SET,
    SYNC,
    keys_of,
    old_keys_of,
    registry_key,
)
from limiters.leases.protocol import LeaseManager, LimitView, served, view_of

if TYPE_CHECKING:
    from redis import Redis

MAX_TIMEOUT = 1.0

NEEDS = Needs(
    "+evalsha +eval +del +exists +hdel +hget +hgetall +hlen +hmget +hset +info +persist +pexpire "
    "+set +time +type"
)


@lists(RedisLeaseOptions)
class RedisLeaseManager(LeaseManager):
    """Keeps the leases of the limit called `name` in Redis 6.2 or newer, Valkey, Sentinel or
    Cluster: one script call for each instance and sync.

    The URL is `redis://`, `rediss://`, `unix://`, `redis+sentinel://host:port,.../service/db`
    or `redis+cluster://host:port,...`, with options as redis-py takes them in its query
    (`?ssl_ca_certs=...`). A client handed in is used as it is, with the timeouts it has, and
    never closed. Nothing is sent before the first call. No step of a call takes longer than
    `timeout`, by default a quarter of `lease_time` and at most a second; nothing is retried
    but what follows a move within a cluster. After an outage the next call connects again.

    Thread-safe, and safe to be used on both sides of a fork. Everything that goes wrong is a
    LeaseManagerError that says what to do.

    >>> from limiters import RedisLeaseManager
    >>> RedisLeaseManager("redis://:secret@localhost:6379/0", name="orders")
    RedisLeaseManager('orders', at 'redis://localhost:6379/0')
    """

    @takes(RedisLeaseOptions)
    def __init__(self, options: RedisLeaseOptions) -> None:
        self._name = name = options.name
        self._lease_time = in_seconds(options.lease_time)
        self._prefix = options.prefix
        timeout = options.timeout
        if timeout is None:
            timeout = min(MAX_TIMEOUT, self._lease_time / 4)
        self._connection = RedisConnection(options.url_or_client, in_seconds(timeout))
        self._runner = ScriptRunner(self._connection, self._explained)
        registered = "+cluster://" not in self._connection.where
        self._keys = keys_of(self._prefix, name, registered=registered)
        self._old_keys = old_keys_of(self._prefix, name) + self._keys[4:]

    @property
    def name(self) -> str:
        return self._name

    @property
    def lease_time(self) -> float:
        return self._lease_time

    @property
    def where(self) -> str:
        """Where its Redis is: the URL without what is secret in it."""
        return self._connection.where

    def __repr__(self) -> str:
        return f"RedisLeaseManager({self._name!r}, at {self.where!r})"

    def sync(self, request: Request) -> Reply:
        answer = self._run(SYNC, *arguments_of(request))
        try:
            reply = reply_of(answer)
        except UNREADABLE as error:
            raise LeaseManagerError(
                f"Redis at {self.where} has answered for the limit {self._name!r} with something "
                "that cannot be read; nothing of it is used, and the same request is sent again. "
                f"If that goes on, {self._keys[0]} is damaged: delete that key, and the limit "
                "starts over"
            ) from error
        if reply.kind is Kind.FORMAT:
            raise self._of_another_format(reply.format)
        return served(reply, request, self._name)

    @takes(TermsChange)
    def set_terms(self, change: TermsChange) -> bool:
        terms = self._terms() if change.names_dimensions else None
        answer = self._set(change, terms)
        if not isinstance(answer, int) and terms is None:  # the limit has dimensions after all
            answer = self._set(change, self._terms())
        if not isinstance(answer, int):
            raise LeaseManagerError(
                f"the limit {self._name!r} was given other dimensions at the same moment, "
                f"{as_text(raw(answer))!r}; nothing was changed"
            )
        return bool(answer)

    def _terms(self) -> Terms | None:
        """Those of the limit; None if there is none, or it is not known which it has."""
        try:
            view = self.look()
        except DamagedLimitError:
            return None
        return view.terms if view is not None else None

    def _set(self, change: TermsChange, terms: Terms | None) -> Any:
        """What the script answers: 1 or 0, or the layout of a limit of other dimensions."""
        said = change.of(terms)
        if terms is not None:
            said.applied_to(terms)  # refuses what no limit can have
        answer = self._run(SET, _token(), *change_of(said))
        if isinstance(answer, list):
            goal, factor = (float(raw(one)) for one in answer)
            check_partitions(Terms.scalar(goal, factor, 0, 0))
        return answer

    def evict(self, instance: str) -> bool:
        return bool(self._run(EVICT, as_bytes(text("instance", instance))))

    def delete(self) -> bool:
        return bool(self._run(DELETE, _token()))

    def delete_old_format(self) -> bool:
        """Deletes what an earlier version stored of the limit, in format 1; whether there was
        something. Until then this version grants nothing. Stop the processes of that version first:
        what they were granted counts until their leases end, and no longer."""
        return bool(self._run(DELETE_OLD, keys=self._old_keys))

    def look(self) -> LimitView | None:
        clock, fields, people = self._run(LOOK)
        labels = pairs(people)
        try:
            limit = limit_of(pairs(fields), labels)
        except FormatError as error:
            if error.stored != FORMAT:
                raise self._of_another_format(error.stored) from error
            raise DamagedLimitError(self._name, self.where, str(error)) from error
        if limit is None or limit.deleted:
            return None
        totals = floats_in(labels.get(b"totals", b""))  # which may be lost, or damaged
        return view_of(limit, totals or (), int(float(raw(clock))), DEFAULT_SPAN)

    def close(self) -> None:
        self._connection.close()

    def _run(self, script: Script, *arguments: Any, keys: tuple[str, ...] | None = None) -> Any:
        return self._runner.run(script, keys or self._keys, [as_bytes(self._name), *arguments])

    def _explained(self, error: Exception, key: Key) -> LeaseManagerError:
        said = str(error).split()
        if "OLDFORMAT" in said:
            return LeaseManagerError(
                f"Redis at {self.where} keeps the limit {self._name!r} in format {OLD_FORMAT}, "
                f"that of an earlier version; this version needs format {FORMAT}. Stop all "
                "processes of the earlier version, then: "
                f"dispatcher limit delete {quote(self._name)} --old-format"
            )
        if "FORMAT" in said[:2] and said[-1].isdigit():
            return self._of_another_format(int(said[-1]))
        if "WRONGTYPE" in said[:1]:  # each script looks itself, and names the key
            key = str(error).removeprefix("WRONGTYPE ")
        return LeaseManagerError(in_words(error, self.where, key, NEEDS, self._prefix))

    def _of_another_format(self, stored: int) -> LeaseManagerError:
        return LeaseManagerError(
            f"Redis at {self.where} keeps the limit {self._name!r} in format {stored}; this "
            f"version needs format {FORMAT}. Use the same version everywhere, or another prefix; "
            f"or, if no process of that version runs any more, delete the key {self._keys[0]}"
        )


def mark_as_new(client: Redis, prefix: str = "dispatcher") -> None:
    """Writes to a server that has just been started empty, by the caller, that no limit was ever
    kept there: so a new limit grants at once. ImproperOrderError if the server has data."""
    if not client.eval(MARK.source, 1, registry_key(prefix)):
        raise ImproperOrderError(
            "this Redis has data, so something of a limit may be out; mark it right after it was "
            "started with an empty directory"
        )


def _token() -> str:
    return uuid.uuid4().hex
