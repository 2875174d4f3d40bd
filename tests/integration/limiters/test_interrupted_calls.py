"""A call to Redis is interrupted at any point: the next one gets its own reply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from limiters._redis.client import RedisConnection
from limiters._redis.runner import ScriptRunner
from limiters._redis.script import of_source
from limiters.embedded import EmbeddedRedis
from tests.interrupting import SoftLimitError, each_point
from tests.servers.cluster import ClusterRedis

# redis-py cleans up in finalizers, too, and there an exception is only reported.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ECHO = of_source("return {KEYS[1], ARGV[1]}")
STEP = 23
"""One of so many points is tried; LONG=1 tries each."""

PAUSE_MS = 15
"""Milliseconds for which the server answers nothing, so that a call is interrupted before its
reply."""


def one(runner: ScriptRunner, text: bytes) -> list[Any]:
    return [runner.run(ECHO, [b"key"], [text])]


def several(runner: ScriptRunner, text: bytes) -> list[Any]:
    return runner.run_each(ECHO, [([b"{key}%d" % n], [text]) for n in range(3)])


def with_command(runner: ScriptRunner, text: bytes) -> list[Any]:
    answers = runner.run_each(ECHO, [([b"key"], [text])], then=("ECHO", "x"))
    return [it if isinstance(it, Exception) else it[0] for it in answers]


def command(runner: ScriptRunner, text: bytes) -> list[Any]:
    return [[b"key", runner.ask(lambda client: client.echo(text), b"key")]]


def interrupted(
    url: str,
    pause: Callable[[], object],
    call: Callable[[ScriptRunner, bytes], list[Any]],
    error: type[BaseException],
) -> int:
    runner = ScriptRunner(RedisConnection(url, 10.0), lambda raised, key: raised)
    call(runner, b"to load the script")
    points = 0

    def prepare() -> Callable[[], object]:
        pause()
        return lambda: call(runner, b"first")

    for where in each_point(prepare, error=error, step=STEP, packages=(redis,)):
        replies = call(runner, b"second")
        assert [it[1] for it in replies] == [b"second"] * len(replies), where
        points += 1
    runner.connection.close()
    return points


@pytest.mark.parametrize("error", [KeyboardInterrupt, SoftLimitError])
@pytest.mark.parametrize("call", [one, several, with_command, command])
def test_no_reply_is_read_by_another_call(
    shared_redis: EmbeddedRedis,
    call: Callable[[ScriptRunner, bytes], list[Any]],
    error: type[BaseException],
) -> None:
    with redis.Redis.from_url(shared_redis.url) as client:
        assert (
            interrupted(shared_redis.url, lambda: client.client_pause(PAUSE_MS), call, error) > 10
        )


def test_no_reply_is_read_by_another_call_in_a_cluster(cluster_redis: ClusterRedis) -> None:
    nodes = [redis.Redis(port=node.port) for node in cluster_redis.nodes]

    def pause() -> None:
        for node in nodes:
            node.client_pause(PAUSE_MS)

    url = f"redis+cluster://127.0.0.1:{cluster_redis.nodes[0].port}"
    assert interrupted(url, pause, several, KeyboardInterrupt) > 10
    for node in nodes:
        node.close()
