"""Which learned costs an instance of a limit shows, and when it shows something new."""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Sequence

from limiters._support.learned_cost import MOST_COSTS, LearnedCost, looks_the_same
from limiters.limiter import LearnedSource

_log = logging.getLogger("limiters.shared")

MIN_INTERVAL = 5.0
"""Seconds between two looks at what was learned."""


class LearnedNotes:
    """The learned costs of those who share a limiter. Sources come and go in any thread, each by
    one step; the thread that asks for capacity looks at them."""

    def __init__(self) -> None:
        self._sources: dict[ShownSource, None] = {}
        self._next_look = -math.inf
        self.costs: Sequence[LearnedCost] = ()
        """The costs that are shown, until the next look that finds a visible change."""

    def add(self, source: LearnedSource) -> ShownSource:
        """Show what `source()` returns as well."""
        added = ShownSource(self, source)
        self._sources[added] = None
        return added

    def remove(self, source: ShownSource) -> None:
        """Show it no more. Idempotent."""
        self._sources.pop(source, None)

    def look(self, now: float) -> bool:
        """Look at the sources, if it is time; whether what is shown has changed. Call it without a
        lock: it calls the sources."""
        if not (self._sources or self.costs) or now < self._next_look:
            return False
        found = [one for source in list(self._sources) for one in self._read(source)]
        costs = heapq.nlargest(MOST_COSTS, found, key=lambda one: one.settled)
        if costs:
            self._next_look = now + MIN_INTERVAL
        if looks_the_same(self.costs, costs):
            return False
        self.costs = costs
        return True

    def _read(self, source: ShownSource) -> Sequence[LearnedCost]:
        try:
            return source.read()
        except Exception:
            facts = {"happening": "learned-source-raised"}
            _log.exception("a source of learned costs raised: %r", source.read, extra=facts)
            self.remove(source)
            return ()


class ShownSource:
    """A source that is looked at now and then, until `end()`."""

    def __init__(self, notes: LearnedNotes, source: LearnedSource) -> None:
        self._notes = notes
        self.read = source

    def end(self) -> None:
        """Do not look at it any more. Idempotent."""
        self._notes.remove(self)
