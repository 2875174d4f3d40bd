"""What is wrong between this process and its servers, as the log tells it: when it begins, when it
becomes something else, and when it is over.

A process may ask one Redis for many things: capacity, due work, what a dashboard shows. A server
that is away is away for all of them: the first part that gets no answer says so in a warning, and
the first that has one again; all others say at the level of DEBUG what it means for them. What a
server that answers refuses, it refuses to one part: that warns, however well others are served.
"""

from __future__ import annotations

import logging
import math
import threading
import time

from limiters._redis.faults import AWAY, cause_of
from limiters._support.forking import begin_in_child

State = tuple[str, float]
"""What is wrong, "" if nothing is, and since when that is known, by `time.monotonic`."""


ANSWERS = "answers"
"""A server was away, and answers again; but it has refused what was asked of it since."""

NOTHING: State = ("", -math.inf)


class Outages:
    """Of all servers that a process uses, and of each part of it that uses one. Thread-safe.

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
        """By server: whether it is away, or answers again. By server and part: what is refused to
        that part."""

    def began(self, where: str, part: str, cause: str, asked: float = math.inf) -> int:
        """At which level to say that a request of that time failed because of `cause`."""
        with self._lock:
            if cause != AWAY:
                if self._states.get((where,), NOTHING)[0] == AWAY:
                    self._change((where,), ANSWERS, asked)
                return self._change((where, part), cause, asked)
            level = self._change((where,), AWAY, asked)
            if level > logging.DEBUG:  # what it refuses when it is back is news
                for key in [one for one in self._states if one[0] == where and len(one) > 1]:
                    self._change(key, "", asked)
            return level

    def ended(self, where: str, part: str, asked: float = math.inf) -> int:
        """At which level to say that a request of that time was served."""
        with self._lock:
            return max(self._change(key, "", asked) for key in ((where,), (where, part)))

    def _change(self, key: tuple[str, ...], cause: str, asked: float) -> int:
        was, since = self._states.get(key, NOTHING)
        # What was asked before the last change says nothing new: it was under way meanwhile.
        if was == cause or asked < since:
            return logging.DEBUG
        self._states[key] = cause, time.monotonic()
        return logging.WARNING


OUTAGES = Outages()
"""Those of this process."""


class Outage:
    """What one user of a server writes of it into the log, on one thread: nothing twice. The facts
    are those of each line."""

    def __init__(self, logger: logging.Logger, where: str, part: str, /, **facts: str) -> None:
        self._log = logger
        self._where = where
        self._part = part
        self._facts = facts
        self._told = ""

    def began(self, error: BaseException, asked: float, text: str, *args: object) -> None:
        """A request of that time failed."""
        cause = cause_of(error)
        if cause != self._told:
            self._told = cause
            kind = type(error).__name__
            facts = {"happening": "redis-away", "error": kind, "where": self._where, **self._facts}
            level = OUTAGES.began(self._where, self._part, cause, asked)
            self._log.log(level, text, *args, extra=facts, stacklevel=2)

    def ended(self, asked: float, text: str, *args: object) -> None:
        """A request of that time was served."""
        level = OUTAGES.ended(self._where, self._part, asked)
        if self._told or level > logging.DEBUG:
            self._told = ""
            facts = {"happening": "redis-back", "where": self._where, **self._facts}
            self._log.log(level, text, *args, extra=facts, stacklevel=2)


def _begin_in_child() -> None:
    OUTAGES._lock = threading.Lock()  # a thread that stayed in the parent may have held it


begin_in_child(_begin_in_child)
