"""RedisLeaseManager: the leases of a limit that many processes share, kept in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limiters._support.validation import Seconds, key_part, optional_seconds, text
from limiters.leases.connection import Connection
from limiters.leases.faults import explained
from limiters.leases.manager import LimitView
from limiters.leases.messages import Reply, Request, Terms, check_partitions, lease_seconds
from limiters.leases.script import Script
from limiters.leases.scripts import (
    CONFIGURE,
    DELETE,
    EVICT,
    LOOK,
    SYNC,
    arguments_of,
    arguments_of_terms,
    as_bytes,
    keys_of,
    looked_at,
    reply_of,
    view_of,
)

if TYPE_CHECKING:
    from redis import Redis, RedisCluster

LONGEST_TIMEOUT = 1.0


class RedisLeaseManager:
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

    def __init__(
        self,
        url_or_client: str | Redis | RedisCluster,
        *,
        name: str,
        lease_time: Seconds = 5.0,
        prefix: str = "dispatcher",
        timeout: Seconds | None = None,
    ) -> None:
        self._name = text("name", name)
        self._lease_time = lease_seconds(lease_time)
        self._keys = keys_of(key_part("prefix", prefix), name)
        default = min(LONGEST_TIMEOUT, self._lease_time / 4)
        given = optional_seconds("timeout", timeout)
        self._connection = Connection(url_or_client, default if given is None else given)

    @property
    def name(self) -> str:
        """The datastore whose limit is shared: same name, same limit."""
        return self._name

    @property
    def lease_time(self) -> float:
        """For how many seconds an instance holds what it was granted, unless it renews."""
        return self._lease_time

    @property
    def where(self) -> str:
        """Where its Redis is: the URL without what is secret in it."""
        return self._connection.where

    def __repr__(self) -> str:
        return f"RedisLeaseManager({self._name!r}, at {self.where!r})"

    def sync(self, request: Request) -> Reply:
        """Serves one request. Safe to be sent again. LeaseManagerError if there is no answer."""
        return reply_of(self._run(SYNC, self._keys, arguments_of(request)))

    def set_capacity(self, terms: Terms, ramp: float | None = None) -> None:
        """Changes the capacity to that of `terms`, a raise by at most `ramp` a second.

        Creates the limit if there is none. Another factor starts it over.
        """
        check_partitions(terms)
        per_ms = "" if ramp is None else repr(ramp / 1000)
        self._run(CONFIGURE, self._keys, [*arguments_of_terms(terms), per_ms])

    def evict(self, instance: str) -> bool:
        """Takes everything from `instance` and grants it nothing more; whether it is known."""
        return bool(self._run(EVICT, self._keys[1:2], [as_bytes(instance)]))

    def delete(self) -> bool:
        """Forgets the limit; whether there was one."""
        return bool(self._run(DELETE, self._keys, []))

    def look(self) -> LimitView | None:
        """What is known of the limit, if there is one."""
        return view_of(self._run(LOOK, looked_at(self._keys), []))

    def close(self) -> None:
        """Lets go of its connections. Those handed in stay open."""
        self._connection.close()

    def _run(self, script: Script, keys: tuple[str, ...], arguments: list[Any]) -> Any:
        try:
            return self._connection.run(script, keys, arguments)
        except Exception as error:  # not all that a client raises is a RedisError
            raise explained(error, self._connection.where, self._keys[0]) from error
