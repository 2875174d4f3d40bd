"""The limiter of a Batcher: the first Batcher that needs it starts it, the last one stops it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from limiters._stats.tally import Source
from limiters._support.forking import begin_in_child
from limiters._support.validation import ArgumentError
from limiters.limiter import LearnedSource, RateLimiter, ShowsLearnedCosts

_log = logging.getLogger("dispatcher.batcher")


class _Use:
    """One limiter and the Batchers that use it.

    A Batcher that leaves does not wait for the lock: a signal handler may have interrupted the
    thread that holds it, and wait for a Batcher that leaves. A thread that finds the lock taken
    continues, and the thread that holds it looks again after it has released it.
    """

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter = limiter
        self.users: set[LimiterLink] = set()
        self._lock = threading.RLock()
        """This lock protects the start and the stop of the limiter."""
        self._ours = False
        """Whether a Batcher has started the limiter. The user stops a limiter that the user has
        started."""

    def begin(self) -> None:
        """Start the limiter, unless it runs. The caller is one of its users already."""
        try:
            with self._lock:
                if not self.limiter.started:
                    try:
                        self.limiter.start()
                    finally:
                        self._ours = True
        finally:
            self._tidy()  # a signal handler may have ended what just began

    def leave(self, user: LimiterLink) -> None:
        """Remove `user` from the users of the limiter."""
        self.users.discard(user)
        self._tidy()

    def _tidy(self) -> None:
        """If the limiter has no users, forget it, and stop it if a Batcher has started it."""
        key = id(self.limiter)
        while not self.users and (self._ours or _uses.get(key) is self):
            if not self._lock.acquire(blocking=False):
                return
            try:
                if self._ours and not self.users:
                    self._ours = False
                    if self.limiter.started:
                        self.limiter.stop()
            finally:
                known = _uses.get(key) is self
                if known and not self.users:  # one step with the next line
                    del _uses[key]
                self._lock.release()


_uses: dict[int, _Use] = {}
"""The limiters that Batchers of this process use, by identity. It needs no lock: each change, and
a test with the change that follows it, is one step. See `_interpreter.py`."""


def _use_of(limiter: RateLimiter, user: LimiterLink) -> _Use:
    """Return the record that all users of `limiter` share, with `user` among them."""
    while True:
        use = _uses.setdefault(id(limiter), _Use(limiter))
        use.users.add(user)
        if _uses.get(id(limiter)) is use:  # otherwise the last other user has just left
            return use


def _leave(limiter: RateLimiter, user: LimiterLink) -> None:
    """Remove `user` from the users of `limiter`."""
    use = _uses.get(id(limiter))
    if use is not None:
        use.leave(user)


def checked_limiter(name: str, value: object) -> RateLimiter:
    """Return `value` if it is a RateLimiter; raise ArgumentError if it is not."""
    # A class has all the methods of its instances, and so would pass for one.
    if isinstance(value, type) or not isinstance(value, RateLimiter):
        raise ArgumentError(
            name,
            value,
            "be a RateLimiter",
            "for one process ProvisionedResource(capacity), for many SharedResource(...)",
        )
    return value


class LimiterLink:
    """The limiter of one Batcher, if it has one. Used by one thread at a time."""

    def __init__(self, limiter: RateLimiter | None) -> None:
        self.limiter = limiter
        self._undo: list[Callable[[], object]] = []
        """The functions that end what was begun, in the order of beginning."""

    def listen(self, changed: Callable[[], object]) -> None:
        """Call `changed` whenever the limiter holds more, or less, or is stopped."""
        if self.limiter is not None:
            self._undo.append(self.limiter.add_wake_up(changed).end)

    def start(self, totals: Source, learned: LearnedSource) -> None:
        """Start the limiter, unless it runs, and have it publish `totals`, and `learned` if it
        can."""
        limiter = self.limiter
        if limiter is None:
            return
        _use_of(limiter, self).begin()
        self._undo.append(limiter.publish(totals).end)
        if isinstance(limiter, ShowsLearnedCosts):
            self._undo.append(limiter.show_learned_costs(learned).end)

    def end(self) -> None:
        """End everything that was begun. An error of the user's limiter does not prevent the
        rest."""
        if self.limiter is not None:
            self._undo.insert(0, partial(_leave, self.limiter, self))
        while self._undo:
            try:
                self._undo.pop()()
            except BaseException:
                facts = {"happening": "limiter-not-stopped"}
                _log.exception("the limiter could not be stopped: %r", self.limiter, extra=facts)


# A forked child has no Batchers: they stayed in the parent, whose threads may hold a lock.
begin_in_child(_uses.clear)
