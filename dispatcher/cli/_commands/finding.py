"""Which limits and topics there are, for commands that name none."""

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
    """Looks for them again and again. Close it."""

    def __init__(self, url: str, prefix: str) -> None:
        with named(URL_OPTION):
            self._connection = RedisConnection(url, PATIENCE)
        self._prefix = prefix
        self._discovery = Discovery(prefix)

    @property
    def where(self) -> str:
        """Where its Redis is: the URL without what is secret in it."""
        return self._connection.where

    def look(self, budget: float = float("inf")) -> tuple[list[str], list[str]]:
        """The names of the limits and of the topics that were found so far. With a `budget` of
        seconds the next call goes on. LeaseManagerError if Redis does not answer."""
        try:
            self._discovery.look(self.client, budget)
        except Exception as error:  # not all that a client raises is a RedisError
            if isinstance(error, DispatcherError):
                raise
            keys = f"{self._prefix}:*"
            said = in_words(error, self.where, keys, NEEDS, self._prefix)
            raise LeaseManagerError(said) from error
        return self._discovery.limits, self._discovery.topics

    @property
    def client(self) -> Any:
        """For all that is asked of what was found: one connection serves many."""
        return self._connection.client()

    def close(self) -> None:
        """Lets go of its connection."""
        self._connection.close()
