"""Which limits and topics there are under a prefix, found step by step, without KEYS."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

from dispatcher.timeline.layout import FORMAT as TIMELINE_FORMAT
from limiters.leases.scripts import FORMAT as LIMIT_FORMAT

AT_ONCE = 1_000
"""How many keys one SCAN looks at: about a millisecond of the server's time."""

BUDGET = 0.5
"""Seconds that looking may take of one scrape; the next one goes on from there."""

AGAIN = 30.0
"""Seconds after which it is looked again for new ones."""


class Discovery:
    """What was found last, and how far the search is that is under way. Not thread-safe."""

    def __init__(self, prefix: str, clock: Callable[[], float] = time.monotonic) -> None:
        start = f"{prefix}:{LIMIT_FORMAT}:"
        assert LIMIT_FORMAT == TIMELINE_FORMAT
        self._match = f"{_escaped(start)}{{*}}:*"
        self._name = re.compile(re.escape(start) + r"\{([^{}/]*)\}:(limit|settings)")
        self._clock = clock
        self._search: Iterator[list[str]] | None = None
        self._found: dict[str, set[str]] = {"limit": set(), "settings": set()}
        self._again = 0.0
        self._names: dict[str, set[str]] = {"limit": set(), "settings": set()}

    @property
    def limits(self) -> list[str]:
        """The names of the limits."""
        return sorted(self._names["limit"])

    @property
    def topics(self) -> list[str]:
        """The names of the topics."""
        return sorted(self._names["settings"])

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
            name = self._name.fullmatch(key)
            if name is not None:
                self._found[name[2]].add(unquote(name[1], errors="surrogateescape"))
                self._names[name[2]].add(unquote(name[1], errors="surrogateescape"))


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
