"""Find limits and topics in Redis, for commands that name none."""

from __future__ import annotations

from typing import Any

from dispatcher._discovery import Discovery
from dispatcher.cli._commands.connecting import PATIENCE, URL_OPTION
from limiters._redis.acl import Needs
from limiters._redis.client import RedisConnection
from limiters._redis.faults import in_words
from limiters._support.validation import named
from limiters.errors import DispatcherError, LeaseManagerError

NEEDS = Needs("+scan")


class NameFinder:
    """Searches repeatedly. Close it."""

    def __init__(self, url: str, prefix: str) -> None:
        with named(URL_OPTION):
            self._connection = RedisConnection(url, PATIENCE)
        self._prefix = prefix
        self._discovery = Discovery(prefix)

    @property
    def where(self) -> str:
        """The URL of its Redis, without the password."""
        return self._connection.where

    def look(self, budget: float = float("inf")) -> tuple[list[str], list[str]]:
        """Return the names of the limits and of the topics found so far. With a `budget` in seconds
        the next call continues. LeaseManagerError if Redis does not answer."""
        try:
            self._discovery.look(self.client, budget)
        except Exception as error:  # clients raise other errors than RedisError, too
            if isinstance(error, DispatcherError):
                raise
            keys = f"{self._prefix}:*"
            said = in_words(error, self.where, keys, NEEDS, self._prefix)
            raise LeaseManagerError(said) from error
        return self._discovery.limits, self._discovery.topics

    @property
    def client(self) -> Any:
        """The client for reading what was found: one connection serves many."""
        return self._connection.client()

    def close(self) -> None:
        self._connection.close()
