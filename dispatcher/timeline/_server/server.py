"""The scripts of a Timeline, and the Redis server that runs them."""

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
    "+evalsha +eval +exists +hdel +hexists +hget +hincrby +hlen +hmget +hscan +hset +hsetnx "
    "+info +publish +subscribe +time +unsubscribe +wait +zadd +zcard +zcount +zmscore "
    "+zrange +zrangebylex +zrangebyscore +zrem +zremrangebyscore +zscan +zscore",
    channels=True,
)
"""The Redis commands that a Timeline needs; +waitaof also, for Durability.AOF, where the server has
it."""


def script(*files: str) -> Script:
    """Combine `files` into one script."""
    return from_files(__package__, *files)


CREATE = script("checked", "bucket", "create")
OWNER = script("checked", "bucket", "owner")
LEASE = script("checked", "bucket", "times", "give", "lease")
ACTIVE = script("checked", "bucket", "give", "active")
HOLD = script("checked", "bucket", "hold")
SCAN = script("checked", "bucket", "told", "scan")
READ = script("checked", "bucket", "told", "read")
SWEEP = script("checked", "bucket", "sweep")
MEND = script("checked", "bucket", "mend")
LOOK = script("checked", "times", "look")
FIT = script("checked", "fit")
FIRST = script("checked", "first")
EXISTS = script("checked", "stored", "exists")
COUNT = script("checked", "count")
STATS = script("checked", "stats")
SETTINGS = script("checked", "stored", "settings")
JOIN = script("checked", "stored", "join")


class Server:
    """A Redis server with the scripts of a Timeline. Thread-safe."""

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
        """Run a script. TimelineUnavailableError if there is no answer."""
        answer = self.run_each(script, [(keys, arguments)])[0]
        if isinstance(answer, TimelineError):
            raise answer
        return list(answer)

    def run_each(
        self, script: Script, calls: Sequence[Call], *, then: Sequence[Any] = ()
    ) -> list[Any]:
        """Run a script for each call, as ScriptRunner does."""
        asked = time.monotonic()
        answers = self._runner.run_each(script, calls, then=then)
        if not all(isinstance(answer, TimelineError) for answer in answers):
            self.answered = max(self.answered, asked)
        return answers

    def refused(self, error: Exception, key: Key) -> TimelineUnavailableError:
        """Return the error to raise. Scripts name a key that is of another type."""
        named = str(error).removeprefix("WRONGTYPE ")
        wrong = named if named.startswith(f"{self._prefix}:") else ""
        told = in_words(error, self.connection.where, wrong or key, NEEDS, self._prefix)
        raised = TimelineUnavailableError(told)
        raised.key = wrong
        return raised

    def of_another_type(self, key: bytes) -> TimelineUnavailableError:
        """Return the error for a key of another type, as scripts report it."""
        return self.refused(Exception(f"WRONGTYPE {key.decode()}"), key)

    def _learn(self, asked: float, answered: float, answer: Any) -> None:
        self.clock.learn(asked, answered, int(answer[0]))
