"""Timelines whose server's time is turned by hand: the scripts' text is changed, here only."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from redis import Redis

from dispatcher.timeline import Timeline
from dispatcher.timeline._server.server import Server
from dispatcher.timeline._server.server_clock import ServerClock
from limiters._redis.runner import Call
from limiters._redis.script import Script, of_source

START_MS = 1_800_000_000_000
_KEY = "tests:now_us"
_ASKED = "local time = redis.call('TIME')"
_TOLD = (
    f"local shown = redis.call('GET', '{_KEY}')\n"
    "  local time = { math.floor(shown / 1000000), shown % 1000000 }"
)


@cache
def with_told_time(script: Script) -> Script:
    """The script, with the server's time from a key."""
    assert script.source.count(_ASKED) == 1, "the time is not asked for where it was"
    return of_source(script.source.replace(_ASKED, _TOLD))


class TimedServer(Server):
    """A server for a Timeline whose clock is set by hand."""

    def run_each(self, script: Script, calls: Sequence[Call], *, then: Sequence[Any] = ()) -> Any:
        return super().run_each(with_told_time(script), calls, then=then)


class ToldClock(ServerClock):
    """Believes every answer, and stands still in between: nothing takes time but by hand."""

    _stopped_at = 0.0
    _told_ms = 0.0

    def learn(self, asked: float, answered: float, now_us: int) -> None:
        self._best = None
        super().learn(asked, answered, now_us)
        self._stopped_at, self._told_ms = self._stopped_at or asked, now_us / 1000

    def now_ms(self) -> float:
        return self._told_ms or super().now_ms()

    def monotonic(self) -> float:
        return self._stopped_at or super().monotonic()


class Hands:
    """Turns the time of a server."""

    def __init__(self, url: str) -> None:
        self._client = Redis.from_url(url)
        self.now_ms = START_MS
        self.turn(0)

    def turn(self, milliseconds: int) -> None:
        """Let milliseconds pass, without waiting."""
        self.now_ms += milliseconds
        self._client.set(_KEY, self.now_ms * 1000)

    def close(self) -> None:
        self._client.close()


def timed(url: str, topic: str = "topic", **options: Any) -> Timeline:
    """A Timeline that goes by the time of Hands."""
    timeline = Timeline(url, topic, **options)
    server = timeline._server
    server.__class__ = TimedServer
    server.clock.__class__ = ToldClock
    return timeline
