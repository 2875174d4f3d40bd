"""Wait until created messages are as durable as their producer asks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dispatcher.timeline._server.server import Server
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.outcomes import Durability
from limiters._redis.client import interruptible
from limiters._redis.runner import Call
from limiters._redis.script import Script

LOOK_AGAIN = 10.0
"""Seconds after which the features of the server are read again."""

SECTIONS = ("server", "persistence", "replication")
"""The sections of INFO that are needed."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The reply of a script, and the durability that was confirmed for it."""

    said: list[Any]
    durability: Durability


class Durably:
    """Runs scripts and waits for the requested durability. Thread-safe.

    WAIT and WAITAOF count what their own connection has written, so they are sent on the connection
    of the scripts. They wait for at most `patience` seconds.
    """

    def __init__(self, server: Server, patience: float) -> None:
        self._server = server
        self._patience_ms = max(1, int(patience * 1000))
        self._offered: tuple[float, Durability] | None = None

    def run(
        self, script: Script, calls: Sequence[Call], durability: Durability | None
    ) -> list[Confirmed | TimelineError]:
        """Run a script for each call. Return the replies, and the durability that was confirmed for
        each."""
        wanted = self.strongest() if durability is None else Durability(durability)
        if wanted is Durability.NONE or not calls:
            return [
                it if isinstance(it, TimelineError) else Confirmed(it, wanted)
                for it in self._server.run_each(script, calls)
            ]
        words: tuple[Any, ...] = ("WAIT", 1, self._patience_ms)
        if wanted is Durability.AOF:
            words = ("WAITAOF", 1, 0, self._patience_ms)
        answers = self._server.run_each(script, calls, then=words)
        return [
            it if isinstance(it, TimelineError) else Confirmed(it[0], _confirmed(it[1], wanted))
            for it in answers
        ]

    def strongest(self) -> Durability:
        """The strongest durability that the server offers."""
        now = time.monotonic()
        if self._offered is None or now - self._offered[0] > LOOK_AGAIN:
            self._offered = now, self._look()
        return self._offered[1]

    def _look(self) -> Durability:
        try:
            client = self._server.connection.client()
            if self._server.is_cluster:
                client = client.get_redis_connection(client.get_primaries()[0])
            with interruptible(client):
                told = {part: client.info(part) for part in SECTIONS}
        except Exception as error:
            raise self._server.refused(error, b"INFO") from error
        version = str(told["server"].get("valkey_version") or told["server"]["redis_version"])
        knows_aof = tuple(map(int, version.split(".")[:2])) >= (7, 2)
        if knows_aof and int(told["persistence"].get("aof_enabled", 0)):
            return Durability.AOF
        if int(told["replication"].get("connected_slaves", 0)):
            return Durability.REPLICA
        return Durability.NONE


def _confirmed(said: Any, wanted: Durability) -> Durability:
    """Return what WAITAOF or WAIT confirmed. WAITAOF counts disks, here and of replicas; WAIT
    counts replicas. An error means that the server does not have the command, or does not write
    such a file."""
    if isinstance(said, Exception):
        return Durability.NONE
    enough = int(said[0] if isinstance(said, (list, tuple)) else said) >= 1
    return wanted if enough else Durability.NONE
