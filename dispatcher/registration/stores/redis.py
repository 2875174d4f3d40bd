"""RedisEntityStore: the entities and messages of a gate, in a Redis that many processes share."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dispatcher.registration._model.reports import Amounts
from dispatcher.registration.errors import EntityStoreError
from limiters._redis.acl import Needs
from limiters._redis.client import RedisConnection
from limiters._redis.faults import in_words
from limiters._redis.runner import Key, ScriptRunner
from limiters._redis.script import Script, from_files
from limiters._support.validation import Seconds, key_part, seconds, text

if TYPE_CHECKING:
    from redis import Redis, RedisCluster

FORMAT = "v3"
"""The version of the stored format, in every key: programs of another format never read these keys.
"""

_BEFORE = "v2"
"""The previous format, whose entities are converted."""

KEYS = (
    *("entities", "children", "emitted", "changes"),
    *("pending", "since", "registrations", "waiting"),
    *("order", "messages", "telemetry", "metadata"),
    *("claims", "agendas", "unfinished", "garbage"),
    *("totals", "replies", "heard"),
)

NEEDS = Needs(
    "+evalsha +eval +del +exists +hdel +hget +hlen +hmget +hscan +hset +rename +time +unlink "
    "+zadd +zcard +zcount +zrange +zrangebylex +zrangebyscore +zrem +zrevrange +zscan +zscore"
)


def _script(*names: str) -> Script:
    return from_files(__package__, "gate", *names)


OFFER, REGISTER, DEREGISTER, EVICT, CONTINUE = (
    _script("examining", "mending", "held", "families", "serving", name)
    for name in ("offer", "register", "deregister", "evict", "continue")
)
LOOK, EMISSIONS, MEND = (
    _script(*names) for names in (["look"], ["examining", "emissions"], ["examining", "mend"])
)


_CONVERT = from_files(__package__, "convert")
_TAKEN_OVER = ("entities", "children", "emitted", "totals")


class RedisEntityStore:
    """Makes one gate of all the gates called `name`, in any number of processes: registered
    entities, and all that is held, are in Redis 6.2 or newer, Valkey, Sentinel or Cluster. Each
    call of a gate is one script, so that concurrent calls have the same effect as one after the
    other. What takes more than some milliseconds, such as the release of a large family, is
    continued by further scripts.

    The URL is as for RedisLeaseManager; a client that is passed in is used as it is, and never
    closed. No step of a call takes longer than `timeout` seconds. A call whose reply is lost is
    sent again, and carried out once; if that fails too, EntityStoreError says why, and what the
    call released is returned by the next one.

    A gate caches registered entities, so that their messages pass without a call; at least every
    `refresh` seconds it asks which of them were removed or have another parent. So a removal by
    another process is seen with that delay, and costs no look-up of any other entity. While Redis
    is unreachable, messages of cached entities pass.

    Thread-safe, and safe to be used on both sides of a fork; but each process needs a gate of its
    own.

    >>> from dispatcher.registration import RedisEntityStore
    >>> RedisEntityStore("redis://:secret@localhost:6379/0", name="plant")
    RedisEntityStore('plant', at 'redis://localhost:6379/0')
    """

    def __init__(
        self,
        url_or_client: str | Redis | RedisCluster,
        *,
        name: str,
        prefix: str = "dispatcher",
        timeout: Seconds = 1.0,
        refresh: Seconds = 1.0,
    ) -> None:
        self._name = text("name", name)
        self.refresh = seconds("refresh", refresh)
        self._prefix = key_part("prefix", prefix)
        self.keys = self._keys_of(FORMAT, KEYS)
        self._connection = RedisConnection(url_or_client, seconds("timeout", timeout))
        self._runner = ScriptRunner(self._connection, self._explained)

    @property
    def name(self) -> str:
        """The name that is shared: all gates with this name are one gate."""
        return self._name

    @property
    def where(self) -> str:
        """The URL of its Redis, without the password."""
        return self._connection.where

    def __repr__(self) -> str:
        return f"RedisEntityStore({self._name!r}, at {self.where!r})"

    def delete(self) -> None:
        """Delete all entities of the gate, and all that is held."""
        self._runner.ask(lambda client: client.delete(*self.keys), self.keys[0])

    def convert(self) -> Amounts:
        """Convert the entities of the previous format, once. Return the amounts that it held, which
        are dropped. EntityStoreError if there is no answer."""
        rest = [one for one in KEYS if one not in _TAKEN_OVER]
        rest.sort(key=lambda one: one != "registrations")
        keys = (
            *self._keys_of(FORMAT, _TAKEN_OVER),
            *self._keys_of(_BEFORE, _TAKEN_OVER),
            *self._keys_of(_BEFORE, rest),
        )
        return Amounts(*self._runner.run(_CONVERT, keys, []))

    def close(self) -> None:
        """Close the connections. Clients that were passed in stay open."""
        self._connection.close()

    def run(self, script: Script, arguments: list[str | bytes]) -> list[Any]:
        """Run a script of the gate. EntityStoreError if there is no answer."""
        answer: list[Any] = self._runner.run(script, self.keys, arguments)
        return answer

    def wrong_key(self, error: EntityStoreError, position: int) -> EntityStoreError:
        """Return the error for a key of another type."""
        assert isinstance(error.__cause__, Exception)
        return self._explained(error.__cause__, self.keys[position - 1])

    def full(self) -> EntityStoreError:
        """Return the error for a call that is refused since the server has no memory left."""
        from redis.exceptions import OutOfMemoryError

        return self._explained(OutOfMemoryError(), self.keys[0])

    def _keys_of(self, form: str, names: Iterable[str]) -> tuple[str, ...]:
        tag = f"{self._prefix}:{form}:{{{quote(self._name, safe='')}}}:gate"
        return tuple(f"{tag}:{one}" for one in names)

    def _explained(self, error: Exception, key: Key) -> EntityStoreError:
        return EntityStoreError(in_words(error, self.where, key, NEEDS, self._prefix))


def new_gate() -> str:
    """Return a name for one gate of one process, which no other gate has."""
    return uuid.uuid4().hex
