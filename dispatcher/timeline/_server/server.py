"""The scripts of a Timeline, and the Redis that runs them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from dispatcher.timeline._server.server_clock import ServerClock
from dispatcher.timeline.errors import TimelineError, TimelineUnavailableError
from limiters._redis.acl import Needs
from limiters._redis.client import RedisConnection
from limiters._redis.faults import in_words
from limiters._redis.runner import Call, Key, ScriptRunner
from limiters._redis.script import Script, from_files

NEEDS = Needs(
    "+evalsha +eval +exists +hdel +hexists +hget +hincrby +hmget +hscan +hset +hsetnx "
    "+info +publish +subscribe +time +unsubscribe +wait +zadd +zcard +zcount +zmscore "
    "+zrange +zrangebylex +zrangebyscore +zrem +zremrangebyscore +zscan +zscore",
    channels=True,
)
"""And +waitaof, for Durability.AOF, where the server knows that."""


def script(*files: str) -> Script:
    """The script that `files` make together."""
    return from_files(__package__, *files)


CREATE = script("bucket", "create")
OWNER = script("bucket", "owner")
LEASE = script("bucket", "times", "give", "lease")
ACTIVE = script("bucket", "give", "active")
HOLD = script("bucket", "hold")
SCAN = script("bucket", "told", "scan")
READ = script("bucket", "told", "read")
SWEEP = script("bucket", "sweep")
LOOK = script("times", "look")
FIRST = script("first")
EXISTS = script("stored", "exists")
COUNT = script("count")
STATS = script("stats")
SETTINGS = script("settings")
JOIN = script("stored", "join")


class Server:
    """A Redis and what it says. Thread-safe."""

    def __init__(self, connection: RedisConnection, prefix: str) -> None:
        self.connection = connection
        self.clock = ServerClock(connection.where)
        self.answered = -math.inf
        """When the last request that was answered was sent, by the monotonic clock."""
        self._prefix = prefix
        self._runner = ScriptRunner(connection, self.refused, answered=self._learn)

    @property
    def is_cluster(self) -> bool:
        """Whether keys of several buckets may be on several nodes."""
        return self._runner.is_cluster

    def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[Any]) -> list[Any]:
        """What the script says. TimelineUnavailableError if there is no answer."""
        answer = self.run_each(script, [(keys, arguments)])[0]
        if isinstance(answer, TimelineError):
            raise answer
        return list(answer)

    def run_each(
        self, script: Script, calls: Sequence[Call], *, then: Sequence[Any] = ()
    ) -> list[Any]:
        """See ScriptRunner."""
        asked = time.monotonic()
        answers = self._runner.run_each(script, calls, then=then)
        if not all(isinstance(answer, TimelineError) for answer in answers):
            self.answered = max(self.answered, asked)
        return answers

    def refused(self, error: Exception, key: Key) -> TimelineUnavailableError:
        """The error, in words."""
        told = in_words(error, self.connection.where, key, NEEDS, self._prefix)
        return TimelineUnavailableError(told)

    def _learn(self, asked: float, answered: float, answer: Any) -> None:
        self.clock.learn(asked, answered, int(answer[0]))
