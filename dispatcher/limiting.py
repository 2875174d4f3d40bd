"""The limiter that a Batcher goes by: started with it if nobody has, listened to, and let go."""

from __future__ import annotations

import logging
from collections.abc import Callable

from limiters._support.validation import ArgumentError
from limiters.events import CAPACITY, Event
from limiters.limiter import Publisher, RateLimiter
from limiters.tally import Source

_log = logging.getLogger(__name__)


class Limiting:
    """One per Batcher, which may have none. Used by one thread at a time."""

    def __init__(self, limiter: RateLimiter | None) -> None:
        # A class has all the methods of its instances, and so would pass for one.
        if limiter is not None and (
            isinstance(limiter, type) or not isinstance(limiter, RateLimiter)
        ):
            raise ArgumentError(
                "rate_limiter",
                limiter,
                "be a RateLimiter",
                "for one process ProvisionedResource(capacity), for many SharedResource(...)",
            )
        self.limiter = limiter
        self._undo: list[Callable[[], object]] = []
        """What was begun, as what ends it."""

    def start(self, totals: Source) -> None:
        """Starts it, unless somebody did, and has it tell others of `totals`, if it can."""
        limiter = self.limiter
        if limiter is None:
            return
        if not limiter.started:
            limiter.start()
            self._undo.append(limiter.stop)
        if isinstance(limiter, Publisher):
            self._undo.append(limiter.publish(totals).end)

    def listen(self, changed: Callable[[Event], object]) -> None:
        """Calls `changed` whenever it holds more, or less."""
        if self.limiter is not None:
            self._undo.append(self.limiter.add_listener(changed, CAPACITY).remove)

    def end(self) -> None:
        """Ends all of that. Nobody is to wait for ever since a limiter of the user's raises."""
        while self._undo:
            try:
                self._undo.pop()()
            except BaseException:
                facts = {"happening": "limiter-not-stopped"}
                _log.exception("the limiter could not be stopped: %r", self.limiter, extra=facts)
