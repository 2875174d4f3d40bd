"""Tally: counters of this process, and how much of them was reported to Redis."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from limiters.leases._totals import COUNTERS

_log = logging.getLogger("limiters.shared")

Source = Callable[[], Mapping[str, float]]
"""Returns how often each of the counters has happened so far; it may leave out some."""


class Publication:
    """A source that is read now and then. `end()` when nothing is added to it any more."""

    def __init__(self, tally: Tally, source: Source) -> None:
        self._tally = tally
        self._source = source
        self._last: tuple[float, ...] = (0.0,) * len(tally.counters)

    def read(self) -> tuple[float, ...]:
        """Return the values of the source; the last ones, if it raises."""
        try:
            values = self._source()
            self._last = tuple(float(values.get(name, 0.0)) for name in self._tally.counters)
        except Exception:
            facts = {"happening": "totals-source-raised"}
            _log.exception(
                "a source of totals raised, and is not called again: %r", self._source, extra=facts
            )
            self._tally.end(self)
        return self._last

    def end(self) -> None:
        """Read the source a last time. Idempotent."""
        self._tally.end(self)


class Tally:
    """Adds up sources, which are called by `read`, without a lock. Thread-safe.

    >>> tally = Tally()
    >>> _ = tally.publish(lambda: {"operations_done": 3})
    >>> unreported = tally.unreported(tally.read(), {})
    >>> unreported[0]
    3.0
    >>> tally.confirm(unreported)
    >>> tally.unreported(tally.read(), {})
    ()
    """

    def __init__(self, counters: Sequence[str] = COUNTERS) -> None:
        """`counters`: what is counted, in the order in which it is sent."""
        self.counters = counters
        self._lock = threading.Lock()
        self._publications: tuple[Publication, ...] = ()
        self._ended = (0.0,) * len(counters)
        self._reported = (0.0,) * len(counters)

    def publish(self, source: Source) -> Publication:
        """Add a source, which is called at each `read`."""
        publication = Publication(self, source)
        with self._lock:
            self._publications += (publication,)
        return publication

    def end(self, publication: Publication) -> None:
        """Read it a last time, and keep that."""
        with self._lock:
            if publication not in self._publications:
                return
            self._publications = tuple(it for it in self._publications if it is not publication)
        last = publication.read()
        with self._lock:
            self._ended = _sum(self._ended, last)

    def read(self) -> tuple[float, ...]:
        """Return the sums of all sources."""
        with self._lock:
            publications, total = self._publications, self._ended
        for publication in publications:
            total = _sum(total, publication.read())
        return total

    def unreported(self, read: tuple[float, ...], own: Mapping[str, float]) -> tuple[float, ...]:
        """Return how much of `read`, and of `own` counters, was not reported; () for nothing."""
        now = _sum(read, tuple(own.get(name, 0.0) for name in self.counters))
        left = tuple(
            max(0.0, it - reported) for it, reported in zip(now, self._reported, strict=True)
        )
        return left if any(left) else ()

    def confirm(self, report: tuple[float, ...]) -> None:
        """Count this report as received."""
        if report:
            self._reported = _sum(self._reported, report)


def _sum(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(mine + its for mine, its in zip(one, other, strict=True))
