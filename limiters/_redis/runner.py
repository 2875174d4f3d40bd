"""Runs scripts inside Redis: by name, or by source if a server has not seen them yet.

Limits, timelines, gates and Spark's ledgers send all their scripts from here, to a single server,
through Sentinels or to a cluster. Each step takes at most the connection's time-out. The owner of a
runner decides what an error means.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from limiters._redis.client import RedisConnection, interruptible
from limiters._redis.faults import may_pass
from limiters._redis.script import Script

Key = str | bytes
Call = tuple[Sequence[Key], Sequence[Any]]
"""The keys and the arguments of a script."""

T = TypeVar("T")

AT_ONCE = 64
"""How many scripts are sent before the first answer is read."""

AGAIN = 0.25
"""Seconds before a call that had no answer is sent again."""

_BINARY: dict[str, Any] = {"NEVER_DECODE": True}
"""Replies are bytes, also from a client that decodes what it reads."""


class ScriptRunner:
    """Sends scripts and commands by `connection`. Thread-safe.

    * `explain`: returns the error to raise for the client's error and a key of the call.
    * `patience`: for how many seconds a single call is sent again while the server is away. A
      call that may have been carried out has to be safe to repeat.
    * `answered`: is called with each answer, and the times of the monotonic clock between which
      the server gave it.
    """

    def __init__(
        self,
        connection: RedisConnection,
        explain: Callable[[Exception, Key], Exception],
        *,
        patience: float = 0.0,
        answered: Callable[[float, float, Any], None] | None = None,
    ) -> None:
        self.connection = connection
        self._words = explain
        self._patience = patience
        self._answered = answered

    @property
    def is_cluster(self) -> bool:
        """Whether keys with different hash tags may be on different nodes."""
        return self.connection.is_cluster

    def run(self, script: Script, keys: Sequence[Key], arguments: Sequence[Any]) -> Any:
        """Return the answer of `script`."""
        return self.ask(lambda client: self._run(client, script, (keys, arguments)), keys[0])

    def ask(self, call: Callable[[Any], T], key: Key) -> T:
        """Return what `call` returns, given the client. An error of the client is explained with
        `key`."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                client = self.connection.client()
                with interruptible(client):
                    return call(client)
            except Exception as error:  # not all that a client raises is a RedisError
                if time.monotonic() + AGAIN >= deadline or not may_pass(error):
                    raise self._explain(error, key) from error
            time.sleep(AGAIN)

    def run_each(
        self, script: Script, calls: Sequence[Call], *, then: Sequence[Any] = ()
    ) -> list[Any]:
        """Return the answer of `script` to each call, or the error in its place.

        A command `then` is sent on each connection after its calls. The answers are then pairs:
        that of the script, and that of the command.
        """
        try:
            client = self.connection.client()
        except Exception as error:
            return [self._explain(error, keys[0]) for keys, _ in calls]
        if self.is_cluster:
            if then:
                return self._run_on_each_node(client, script, calls, then)
            return [self._run_or_explain(client, script, call) for call in calls]
        answers: list[Any] = []
        for at in range(0, len(calls), AT_ONCE):
            answers += self._run_together(client, script, calls[at : at + AT_ONCE], then)
        return answers

    def _run(self, client: Any, script: Script, call: Call) -> Any:
        asked = time.monotonic()
        answer = _evaluated(client, script, call)
        if self._answered is not None:
            self._answered(asked, time.monotonic(), answer)
        return answer

    def _explain(self, error: Exception, key: Key) -> Exception:
        """Return the explained error, with its cause, since it may not be raised here."""
        explained = self._words(error, key)
        explained.__cause__ = error
        return explained

    def _run_or_explain(self, client: Any, script: Script, call: Call) -> Any:
        try:
            with interruptible(client):
                return self._run(client, script, call)
        except Exception as error:
            return self._explain(error, call[0][0])

    def _run_on_each_node(
        self, client: Any, script: Script, calls: Sequence[Call], then: Sequence[Any]
    ) -> list[Any]:
        """Send the calls of each node together: a command that waits for replicas waits for the
        writes of its own connection."""
        answers: list[Any] = [None] * len(calls)
        places: dict[str, list[int]] = {}
        nodes: dict[str, Any] = {}
        for at, (keys, _) in enumerate(calls):
            try:
                node = client.get_node_from_key(keys[0])
                nodes[node.name] = client.get_redis_connection(node)
                places.setdefault(node.name, []).append(at)
            except Exception as error:
                answers[at] = self._explain(error, keys[0])
        for name, mine in places.items():
            results = self._run_together(nodes[name], script, [calls[at] for at in mine], then)
            for at, answer in zip(mine, results, strict=True):
                answers[at] = answer
        return answers

    def _run_together(
        self, client: Any, script: Script, calls: Sequence[Call], then: Sequence[Any]
    ) -> list[Any]:
        if len(calls) == 1 and not then:
            return [self._run_or_explain(client, script, calls[0])]
        answers: list[Any] = [None] * len(calls)
        left, name = list(range(len(calls))), ("EVALSHA", script.sha)
        while left:
            asked = time.monotonic()
            try:
                results = _send(client, name, [calls[at] for at in left], then)
            except Exception as error:
                for at in left:
                    answers[at] = self._explain(error, calls[at][0][0])
                return answers
            answered = time.monotonic()
            unknown = []
            for at, answer in zip(left, results, strict=False):
                if isinstance(answer, _errors().NoScriptError) and name[0] == "EVALSHA":
                    unknown.append(at)
                elif isinstance(answer, Exception):
                    answers[at] = self._explain(answer, calls[at][0][0])
                else:
                    if self._answered is not None:
                        self._answered(asked, answered, answer)
                    answers[at] = (answer, results[-1]) if then else answer
            left, name = unknown, ("EVAL", script.source)
        return answers


def _evaluated(client: Any, script: Script, call: Call) -> Any:
    keys, arguments = call
    words = (len(keys), *keys, *arguments)
    with contextlib.suppress(_errors().NoScriptError):
        return client.execute_command("EVALSHA", script.sha, *words, **_BINARY)
    # The server keeps the script from now on.
    return client.execute_command("EVAL", script.source, *words, **_BINARY)


def _send(
    client: Any, name: tuple[str, str], calls: Sequence[Call], then: Sequence[Any]
) -> list[Any]:
    """Return the answers, or errors, in the order of the calls; then the answer to `then`."""
    with interruptible(client), client.pipeline(transaction=False) as way:
        for keys, arguments in calls:
            way.execute_command(*name, len(keys), *keys, *arguments, **_BINARY)
        if then:
            way.execute_command(*then)
        return list(way.execute(raise_on_error=False))


def _errors() -> Any:
    import redis

    return redis.exceptions
