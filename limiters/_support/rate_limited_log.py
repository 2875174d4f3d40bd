"""So many lines of a kind go into the log, and those that are left out are counted."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

MOST_KINDS = 64


class Damper:
    """At most `most` of each kind in `per` seconds. Thread-safe.

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
        """Of each: since when it is counted, how many went through since, how many did not."""

    def left_out(self, kind: Hashable, now: float | None = None) -> int | None:
        """How many of this kind were left out since the last one; None: leave this out too."""
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
    """Writes to a logger, but no flood. A kind is what is happening, and the class of its error:
    there may be a watcher for each request, and all fail alike when a datastore is away."""

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
        """As Logger.log; but the line, and its facts, also say how many like it were left out."""
        left_out = self._damper.left_out((extra["happening"], extra.get("error")), now)
        if left_out is None:
            return
        before = f" (and {left_out:,} like this since the last line)" if left_out else ""
        for trace in (exc_info, None):
            # A filter of the user's may raise, and an error whose attributes do has no traceback
            # that could be written: nothing of that may break what goes on here.
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
