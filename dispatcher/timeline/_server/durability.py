"""Waits until what was created is where its producer wants it to be."""

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
"""Seconds after which the server is asked again what it offers."""

SECTIONS = ("server", "persistence", "replication")
"""What INFO has of it."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What a script has said, and what was confirmed of it."""

    said: list[Any]
    durability: Durability


class Durably:
    """Runs scripts and waits for what `durability` says. Thread-safe.

    WAIT and WAITAOF count what their own connection has written, so they follow the scripts
    on the same way. They wait for at most `patience` seconds.
    """

    def __init__(self, server: Server, patience: float) -> None:
        self._server = server
        self._patience_ms = max(1, int(patience * 1000))
        self._offered: tuple[float, Durability] | None = None

    def run(
        self, script: Script, calls: Sequence[Call], durability: Durability | None
    ) -> list[Confirmed | TimelineError]:
        """What the script says to each, and what was confirmed."""
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
        """The most that the server offers."""
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
    """WAITAOF says how many disks, here and of replicas; WAIT how many replicas. An error means
    that the server knows no such thing, or does not keep such a file."""
    if isinstance(said, Exception):
        return Durability.NONE
    enough = int(said[0] if isinstance(said, (list, tuple)) else said) >= 1
    return wanted if enough else Durability.NONE
