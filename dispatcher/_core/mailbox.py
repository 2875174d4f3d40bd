"""Calls for the engine: any thread posts them, and the engine makes them in its next turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

PostedCall = tuple[Callable[..., None], tuple[Any, ...]]


class Mailbox:
    """The calls for one engine. It refers to no receiver, so that every part of an engine can
    post."""

    __slots__ = ("_calls", "_wake")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._calls: deque[PostedCall] = deque()
        self._wake = wake

    def __len__(self) -> int:
        return len(self._calls)

    def post(self, function: Callable[..., None], *arguments: Any) -> None:
        """Have `function(now, *arguments)` called in the next turn. Thread-safe."""
        self._calls.append((function, arguments))
        self._wake()

    def take(self) -> list[PostedCall]:
        """Take out the calls posted so far. A call posted during a turn waits for the next one."""
        return [self._calls.popleft() for _ in range(len(self._calls))]
