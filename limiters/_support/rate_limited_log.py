"""Limits how many lines of a kind go into the log, and counts those that are left out."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

MOST_KINDS = 64


class Damper:
    """Lets at most `most` of each kind through in `per` seconds. Thread-safe.

    >>> damper = Damper(most=2, per=10.0)
    >>> [damper.left_out("failed", now) for now in (0.0, 1.0, 2.0, 3.0, 11.0)]
    [0, 0, None, None, 2]
    """

    def __init__(
        self, most: int = 10, per: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._per = per
        self._clock = clock
        self._lock = threading.Lock()
        self._kinds: dict[Hashable, tuple[float, int, int]] = {}
        """For each kind: the time since which it is counted, how many went through, and how many
        did not."""

    def left_out(self, kind: Hashable, now: float | None = None) -> int | None:
        """Return how many of this kind were left out since the last one. None: leave this one out,
        too."""
        now = self._clock() if now is None else now
        with self._lock:
            since, through, out = self._kinds.pop(kind, (now, 0, 0))
            if now - since >= self._per:
                since, through = now, 0
            if len(self._kinds) >= MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]
            if through < self._most:
                self._kinds[kind] = since, through + 1, 0
                return out
            self._kinds[kind] = since, through, out + 1
            return None


class RateLimitedLog:
    """Writes a limited number of lines to a logger. A kind is the event and the class of its error:
    there may be a watcher for each request, and all of them fail in the same way when a datastore
    is away."""

    def __init__(self, logger: logging.Logger, *, most: int = 10) -> None:
        self._logger = logger
        self._damper = Damper(most)

    def log(
        self,
        level: int,
        text: str,
        *args: object,
        extra: dict[str, Any],
        exc_info: BaseException | None = None,
        now: float | None = None,
    ) -> None:
        """Log a line, like `Logger.log`. The line and its facts also say how many like it were left
        out."""
        left_out = self._damper.left_out((extra["happening"], extra.get("error")), now)
        if left_out is None:
            return
        before = f" (and {left_out:,} like this since the last line)" if left_out else ""
        for trace in (exc_info, None):
            # A user's filter may raise, and an error whose attributes raise has no traceback that
            # could be written. Neither must reach the caller.
            with contextlib.suppress(Exception, SystemExit):
                self._logger.log(
                    level,
                    text + "%s",
                    *(*args, before),
                    exc_info=trace,
                    extra=extra | {"left_out": left_out},
                    stacklevel=2,
                )
                return
