"""Logs what is wrong between this process and its servers: when it begins, when it changes, and
when it is over.

A process may ask one Redis for many things: capacity, due work, the figures of a dashboard. A
server that is away is away for all of them: the first part that gets no answer logs a warning, and
so does the first that gets one again. All other parts log at the level DEBUG what it means for
them. If a server answers but refuses a request, it refuses it to one part: that part logs a
warning, even if others are served.
"""

from __future__ import annotations

import logging
import math
import threading
import time

from limiters._redis.faults import AWAY, cause_of
from limiters._support.forking import begin_in_child

State = tuple[str, float]
"""The cause of an outage ("" without one), and the `time.monotonic` since which it is known."""


ANSWERS = "answers"
"""A server was away and answers again, but it has refused a request since then."""

NOTHING: State = ("", -math.inf)


class Outages:
    """The outages of all servers of a process, and of each part that uses one. Thread-safe.

    >>> outages = Outages()
    >>> outages.began("redis://db", "topic a", "away") == logging.WARNING
    True
    >>> outages.began("redis://db", "limit b", "away") == logging.DEBUG
    True
    >>> outages.began("redis://db", "limit b", "WRONGTYPE") == logging.WARNING
    True
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: dict[tuple[str, ...], State] = {}
        """The state by server: it is away, or answers again. By server and part: what is refused to
        that part."""

    def began(self, where: str, part: str, cause: str, asked: float = math.inf) -> int:
        """Return the level at which to log that a request of that time failed because of
        `cause`."""
        with self._lock:
            if cause != AWAY:
                if self._states.get((where,), NOTHING)[0] == AWAY:
                    self._change((where,), ANSWERS, asked)
                return self._change((where, part), cause, asked)
            level = self._change((where,), AWAY, asked)
            if level > logging.DEBUG:  # a later refusal is news again
                for key in [one for one in self._states if one[0] == where and len(one) > 1]:
                    self._change(key, "", asked)
            return level

    def ended(self, where: str, part: str, asked: float = math.inf) -> int:
        """Return the level at which to log that a request of that time was served."""
        with self._lock:
            return max(self._change(key, "", asked) for key in ((where,), (where, part)))

    def _change(self, key: tuple[str, ...], cause: str, asked: float) -> int:
        was, since = self._states.get(key, NOTHING)
        # A request from before the last change is no news: it was under way in the meantime.
        if was == cause or asked < since:
            return logging.DEBUG
        self._states[key] = cause, time.monotonic()
        return logging.WARNING


OUTAGES = Outages()
"""The outages of this process."""


class Outage:
    """Logs the outages that one user of a server meets, on one thread: no line is repeated. Each
    line has the facts."""

    def __init__(self, logger: logging.Logger, where: str, part: str, /, **facts: str) -> None:
        self._log = logger
        self._where = where
        self._part = part
        self._facts = facts
        self._logged = ""

    def began(self, error: BaseException, asked: float, text: str, *args: object) -> None:
        """Log that a request which was sent at `asked` has failed."""
        cause = cause_of(error)
        if cause != self._logged:
            self._logged = cause
            kind = type(error).__name__
            facts = {"happening": "redis-away", "error": kind, "where": self._where, **self._facts}
            level = OUTAGES.began(self._where, self._part, cause, asked)
            self._log.log(level, text, *args, extra=facts, stacklevel=2)

    def ended(self, asked: float, text: str, *args: object) -> None:
        """Log that a request which was sent at `asked` was served."""
        level = OUTAGES.ended(self._where, self._part, asked)
        if self._logged or level > logging.DEBUG:
            self._logged = ""
            facts = {"happening": "redis-back", "where": self._where, **self._facts}
            self._log.log(level, text, *args, extra=facts, stacklevel=2)


def _begin_in_child() -> None:
    OUTAGES._lock = threading.Lock()  # a thread that stayed in the parent may have held it


begin_in_child(_begin_in_child)
