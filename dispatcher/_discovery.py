"""Which limits and topics there are under a prefix, found step by step, without KEYS."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from dispatcher.timeline._encoding.layout import Layout
from limiters.leases._scripts import keys_of

AT_ONCE = 1_000
"""How many keys one SCAN looks at: about a millisecond of the server's time."""

BUDGET = 0.5
"""Seconds that looking may take of one scrape; the next one goes on from there."""

AGAIN = 30.0
"""Seconds after which it is looked again for new ones."""


class Discovery:
    """What was found last, and how far the search is that is under way. Not thread-safe."""

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
        """The names of the limits."""
        return sorted(self._names["limit"])

    @property
    def topics(self) -> list[str]:
        """The names of the topics."""
        return sorted(self._names["topic"])

    def look(self, client: Any, budget: float = BUDGET) -> None:
        """Goes on looking for at most so many seconds, if it is time to. Errors are redis-py's;
        then the next call begins anew."""
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
    """What the keys of all names look like; `key` is that of the name x."""
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
            # Of a cluster, one cursor for each node that was asked.
            cursor = int(next(iter(answer.values())) if isinstance(answer, dict) else answer)
            if not cursor:
                break


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[\]\\^])", r"\\\1", text)
