"""Runs the scripts: each by its name, one or many on one way, errors in words."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from dispatcher.timeline._server.server_clock import ServerClock
from dispatcher.timeline.errors import TimelineError, TimelineUnavailableError
from limiters._redis.client import RedisConnection
from limiters._redis.faults import in_words
from limiters._redis.script import Script, from_files

COMMANDS = (
    "&{prefix}:* +evalsha +eval +exists +hdel +hexists +hget +hincrby +hmget +hscan +hset +hsetnx "
    "+info +publish +subscribe +time +unsubscribe +wait +zadd +zcard +zcount +zmscore "
    "+zrange +zrangebylex +zrangebyscore +zrem +zremrangebyscore +zscan +zscore"
)
"""What a user of Redis must be allowed to do, and the channels it must be allowed to use; and
+waitaof, for Durability.AOF, where the server knows that."""

ON_ONE_WAY = 64
"""How many scripts are sent before the first answer is read."""


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

Call = tuple[Sequence[bytes], Sequence[Any]]
"""The keys and the arguments of a script."""


class Server:
    """A Redis and what it says. Thread-safe."""

    def __init__(self, connection: RedisConnection, prefix: str) -> None:
        self.connection = connection
        self.clock = ServerClock(connection.where)
        self.answered = -math.inf
        """When the last request that was answered was sent, by the monotonic clock."""
        self._commands = COMMANDS.replace("{prefix}", prefix)

    @property
    def is_cluster(self) -> bool:
        """Whether keys of several buckets may be on several nodes."""
        return hasattr(self.connection.client(), "nodes_manager")

    def run(self, script: Script, keys: Sequence[bytes], arguments: Sequence[Any]) -> list[Any]:
        """What the script says. TimelineUnavailableError if there is no answer."""
        answer = self.run_each(script, [(keys, arguments)])[0]
        if isinstance(answer, TimelineError):
            raise answer
        return list(answer)

    def run_each(
        self, script: Script, calls: Sequence[Call], *, then: Sequence[Any] = ()
    ) -> list[Any]:
        """What the script says to each of the calls, or the error in its place.

        With a command `then`, that is sent on each connection after its calls, and the answers
        to them are pairs: what the script says, and what that command does.
        """
        asked = time.monotonic()
        answers = self._run_each(script, calls, then)
        if not all(isinstance(answer, TimelineError) for answer in answers):
            self.answered = max(self.answered, asked)
        return answers

    def _run_each(self, script: Script, calls: Sequence[Call], then: Sequence[Any]) -> list[Any]:
        client = self.connection.client()
        if self.is_cluster:
            if then:
                return self._run_on_each_node(client, script, calls, then)
            return [self._run_in_cluster(client, script, call) for call in calls]
        answers: list[Any] = []
        for at in range(0, len(calls), ON_ONE_WAY):
            answers += self._run_on_one_way(client, script, calls[at : at + ON_ONE_WAY], then)
        return answers

    def refused(self, error: Exception, key: bytes) -> TimelineUnavailableError:
        """The error, in words."""
        where = self.connection.where
        return TimelineUnavailableError(in_words(error, where, key.decode(), self._commands))

    def _run_on_each_node(
        self, client: Any, script: Script, calls: Sequence[Call], then: Sequence[Any]
    ) -> list[Any]:
        """What waits for replicas waits for what its own connection has written."""
        answers: list[Any] = [None] * len(calls)
        places: dict[str, list[int]] = {}
        nodes: dict[str, Any] = {}
        for at, (keys, _) in enumerate(calls):
            try:
                node = client.get_node_from_key(keys[0])
                nodes[node.name] = client.get_redis_connection(node)
                places.setdefault(node.name, []).append(at)
            except Exception as error:
                answers[at] = self.refused(error, keys[0])
        for name, mine in places.items():
            said = self._run_on_one_way(nodes[name], script, [calls[at] for at in mine], then)
            for at, answer in zip(mine, said, strict=True):
                answers[at] = answer
        return answers

    def _run_in_cluster(
        self, client: Any, script: Script, call: Call
    ) -> list[Any] | TimelineUnavailableError:
        keys, arguments = call
        words = (len(keys), *keys, *arguments)
        try:
            asked = time.monotonic()
            try:
                answer = client.execute_command("EVALSHA", script.sha, *words, NEVER_DECODE=[])
            except _errors().NoScriptError:
                answer = client.execute_command("EVAL", script.source, *words, NEVER_DECODE=[])
            self.clock.learn(asked, time.monotonic(), int(answer[0]))
        except Exception as error:  # not all that a client raises is a RedisError
            return self.refused(error, keys[0])
        return answer  # type: ignore[no-any-return]

    def _run_on_one_way(
        self, client: Any, script: Script, calls: Sequence[Call], then: Sequence[Any]
    ) -> list[Any]:
        answers: list[Any] = [None] * len(calls)
        left, name = list(range(len(calls))), ("EVALSHA", script.sha)
        while left:
            try:
                asked = time.monotonic()
                said = self._send(client, name, [calls[at] for at in left], then)
                answered = time.monotonic()
            except Exception as error:
                for at in left:
                    answers[at] = self.refused(error, calls[at][0][0])
                return answers
            unknown = []
            for at, answer in zip(left, said, strict=False):
                if isinstance(answer, _errors().NoScriptError) and name[0] == "EVALSHA":
                    unknown.append(at)
                elif isinstance(answer, Exception):
                    answers[at] = self.refused(answer, calls[at][0][0])
                else:
                    self.clock.learn(asked, answered, int(answer[0]))
                    answers[at] = (answer, said[-1]) if then else answer
            # The server keeps the script from now on.
            left, name = unknown, ("EVAL", script.source)
        return answers

    def _send(
        self, client: Any, name: tuple[str, str], calls: Sequence[Call], then: Sequence[Any]
    ) -> list[Any]:
        if len(calls) == 1 and not then:
            ((keys, arguments),) = calls
            try:
                return [
                    client.execute_command(*name, len(keys), *keys, *arguments, NEVER_DECODE=[])
                ]
            except _errors().ResponseError as error:
                return [error]
        with client.pipeline(transaction=False) as way:
            for keys, arguments in calls:
                way.execute_command(*name, len(keys), *keys, *arguments, NEVER_DECODE=[])
            if then:
                way.execute_command(*then)
            return list(way.execute(raise_on_error=False))


def _errors() -> Any:
    import redis

    return redis.exceptions
