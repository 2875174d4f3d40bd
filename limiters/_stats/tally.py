"""Tally: what this process has done, and what of it others were told already."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from limiters.leases._totals import COUNTERS

_log = logging.getLogger("limiters.shared")

Source = Callable[[], Mapping[str, float]]
"""Says how often each of totals.COUNTERS has happened so far, at least those that it knows."""


class Publication:
    """A source that is asked now and then. `end()` when nothing is added to it any more."""

    def __init__(self, tally: Tally, source: Source) -> None:
        self._tally = tally
        self._source = source
        self._last: tuple[float, ...] = (0.0,) * len(tally.counters)

    def read(self) -> tuple[float, ...]:
        """What it says; what it said last, if it raises."""
        try:
            said = self._source()
            self._last = tuple(float(said.get(name, 0.0)) for name in self._tally.counters)
        except Exception:
            facts = {"happening": "totals-source-raised"}
            _log.exception(
                "a source of totals raised, and is not called again: %r", self._source, extra=facts
            )
            self._tally.end(self)
        return self._last

    def end(self) -> None:
        """It is asked a last time. Idempotent."""
        self._tally.end(self)


class Tally:
    """Adds up sources. Sources are asked by whoever calls `read`, without a lock. Thread-safe.

    >>> tally = Tally()
    >>> _ = tally.publish(lambda: {"operations_done": 3})
    >>> untold = tally.untold(tally.read(), {})
    >>> untold[0]
    3.0
    >>> tally.told(untold)
    >>> tally.untold(tally.read(), {})
    ()
    """

    def __init__(self, counters: Sequence[str] = COUNTERS) -> None:
        """`counters`: what is counted, in the order in which it is sent."""
        self.counters = counters
        self._lock = threading.Lock()
        self._publications: tuple[Publication, ...] = ()
        self._ended = (0.0,) * len(counters)
        self._told = (0.0,) * len(counters)

    def publish(self, source: Source) -> Publication:
        """Asks `source`, too."""
        publication = Publication(self, source)
        with self._lock:
            self._publications += (publication,)
        return publication

    def end(self, publication: Publication) -> None:
        """Keeps what it says last."""
        with self._lock:
            if publication not in self._publications:
                return
            self._publications = tuple(it for it in self._publications if it is not publication)
        last = publication.read()
        with self._lock:
            self._ended = _sum(self._ended, last)

    def read(self) -> tuple[float, ...]:
        """What all sources say."""
        with self._lock:
            publications, total = self._publications, self._ended
        for publication in publications:
            total = _sum(total, publication.read())
        return total

    def untold(self, read: tuple[float, ...], own: Mapping[str, float]) -> tuple[float, ...]:
        """What was not told of what was `read`, and of `own`; () for nothing."""
        now = _sum(read, tuple(own.get(name, 0.0) for name in self.counters))
        left = tuple(max(0.0, it - told) for it, told in zip(now, self._told, strict=True))
        return left if any(left) else ()

    def told(self, untold: tuple[float, ...]) -> None:
        """It was heard."""
        if untold:
            self._told = _sum(self._told, untold)


def _sum(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(mine + its for mine, its in zip(one, other, strict=True))
