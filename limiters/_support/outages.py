"""Which servers do not answer this process: an outage is two warnings, whoever notices it.

A process may ask one Redis for many things: capacity, due work, what a dashboard shows. The first
part that gets no answer says so in a warning, and the first that has one again; all others say at
the level of DEBUG what it means for them.
"""

from __future__ import annotations

import logging
import math
import threading
import time

from limiters._support.forking import begin_in_child


class Outages:
    """Times are those of `time.monotonic`. Thread-safe.

    >>> outages = Outages()
    >>> outages.began("redis://db", 1.0) == logging.WARNING
    True
    >>> outages.began("redis://db", 1.1) == logging.DEBUG
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: dict[str, tuple[bool, float]] = {}
        """Of each server whether it is away, and since when that is known."""

    def began(self, where: str, asked: float = math.inf) -> int:
        """At which level to say that a request of that time got no answer."""
        return self._change(where, asked, away=True)

    def ended(self, where: str, asked: float = math.inf) -> int:
        """At which level to say that a request of that time got one."""
        return self._change(where, asked, away=False)

    def _change(self, where: str, asked: float, *, away: bool) -> int:
        with self._lock:
            was, since = self._changed.get(where, (False, -math.inf))
            # What was asked before the last change says nothing new: it was under way meanwhile.
            if was == away or asked < since:
                return logging.DEBUG
            self._changed[where] = away, time.monotonic()
            return logging.WARNING


OUTAGES = Outages()
"""Those of this process."""


def _begin_in_child() -> None:
    OUTAGES._lock = threading.Lock()  # a thread that stayed in the parent may have held it


begin_in_child(_begin_in_child)
