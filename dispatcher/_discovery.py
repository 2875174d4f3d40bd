"""Find the limits and topics under a prefix step by step, without KEYS."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from dispatcher.timeline._encoding.layout import Layout
from limiters.leases._scripts import keys_of

AT_ONCE = 1_000
"""Number of keys that one SCAN examines: about a millisecond of the server's time."""

BUDGET = 0.5
"""Seconds of one scrape for the search; the next scrape continues it."""

AGAIN = 30.0
"""Seconds between two searches for new names."""


class Discovery:
    """The names found last, and the state of the search under way. Not thread-safe."""

    def __init__(self, prefix: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._match = f"{_escaped(prefix)}:*"
        self._kinds = {
            "limit": _pattern(keys_of(prefix, "x")[0]),
            "topic": _pattern(Layout(prefix, "x").settings.decode()),
        }
        self._clock = clock
        self._search: Iterator[list[str]] | None = None
        self._found: dict[str, set[str]] = {kind: set() for kind in self._kinds}
        self._again = 0.0
        self._names: dict[str, set[str]] = {kind: set() for kind in self._kinds}

    @property
    def limits(self) -> list[str]:
        return sorted(self._names["limit"])

    @property
    def topics(self) -> list[str]:
        return sorted(self._names["topic"])

    def look(self, client: Any, budget: float = BUDGET) -> None:
        """Continue the search for at most `budget` seconds, if one is due. Errors are redis-py's;
        after one the next call starts again."""
        if self._search is None:
            if self._clock() < self._again:
                return
            self._search = _scan(client, self._match)
            self._found = {kind: set() for kind in self._names}
        end = self._clock() + budget
        try:
            for keys in self._search:
                self._note(keys)
                if self._clock() >= end:
                    return
        except Exception:
            self._search = None
            raise
        self._search, self._again = None, self._clock() + AGAIN
        self._names = self._found

    def _note(self, keys: list[str]) -> None:
        for key in keys:
            for kind, pattern in self._kinds.items():
                found = pattern.fullmatch(key)
                if found is not None:
                    name = unquote(found[1], errors="surrogateescape")
                    self._found[kind].add(name)
                    self._names[kind].add(name)


def _pattern(key: str) -> re.Pattern[str]:
    """Return the pattern of the keys of all names; `key` is that of the name x."""
    start, _, end = key.rpartition("{x}")
    return re.compile(rf"{re.escape(start)}\{{([^{{}}/]*)\}}{re.escape(end)}")


def _scan(client: Any, match: str) -> Iterator[list[str]]:
    nodes = client.get_primaries() if hasattr(client, "get_primaries") else [None]
    for node in nodes:
        where = {} if node is None else {"target_nodes": node}
        cursor = 0
        while True:
            answer, keys = client.scan(cursor, match=match, count=AT_ONCE, **where)
            yield [
                key.decode("utf-8", "replace") if isinstance(key, bytes) else key for key in keys
            ]
            # In a cluster, one cursor for each node that was asked.
            cursor = int(next(iter(answer.values())) if isinstance(answer, dict) else answer)
            if not cursor:
                break


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[\]\\^])", r"\\\1", text)
