"""The limiter that a Batcher goes by: started by the first that needs it, stopped by the last."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial

from limiters._stats.tally import Source
from limiters._support.forking import begin_in_child
from limiters._support.validation import ArgumentError
from limiters.limiter import RateLimiter

_log = logging.getLogger("dispatcher.batcher")


class _Use:
    """One limiter and the Batchers that use it.

    Nobody waits for the lock to leave: a signal handler may have interrupted the thread that holds
    it, and wait in turn for a Batcher that leaves. Who finds the lock taken goes on, and the one
    who holds it looks again once it has let go of it.
    """

    def __init__(self, limiter: RateLimiter) -> None:
        self.limiter = limiter
        self.users: set[LimiterLink] = set()
        self._lock = threading.RLock()
        """For starting and stopping it."""
        self._ours = False
        """Whether a Batcher has started it. A limiter that the user started, the user stops."""

    def begin(self) -> None:
        """Starts it, unless it runs. For who is one of its users."""
        try:
            with self._lock:
                if not self.limiter.started:
                    try:
                        self.limiter.start()
                    finally:
                        self._ours = True
        finally:
            self._tidy()  # a signal handler may have ended what is just beginning

    def leave(self, user: LimiterLink) -> None:
        """`user` does not use it any more."""
        self.users.discard(user)
        self._tidy()

    def _tidy(self) -> None:
        """Forgets it, and stops it if a Batcher has started it, once nobody uses it."""
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
    """What all who use `limiter` share; `user` is one of them."""
    while True:
        use = _uses.setdefault(id(limiter), _Use(limiter))
        use.users.add(user)
        if _uses.get(id(limiter)) is use:  # else the last of the others has left in between
            return use


def _leave(limiter: RateLimiter, user: LimiterLink) -> None:
    """`user` is none of them any more."""
    use = _uses.get(id(limiter))
    if use is not None:
        use.leave(user)


def checked_limiter(name: str, value: object) -> RateLimiter:
    """`value`, if it is one."""
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
    """One per Batcher, which may have none. Used by one thread at a time."""

    def __init__(self, limiter: RateLimiter | None) -> None:
        self.limiter = limiter
        self._undo: list[Callable[[], object]] = []
        """What was begun, as what ends it."""

    def listen(self, changed: Callable[[], object]) -> None:
        """Calls `changed` whenever it holds more, or less, or is stopped."""
        if self.limiter is not None:
            self._undo.append(self.limiter.add_wake_up(changed).end)

    def start(self, totals: Source) -> None:
        """Starts it, unless it runs, and has it tell others of `totals`."""
        limiter = self.limiter
        if limiter is None:
            return
        _use_of(limiter, self).begin()
        self._undo.append(limiter.publish(totals).end)

    def end(self) -> None:
        """Ends all of that, whatever was begun; an error of the user's limiter does not keep the
        Batcher from it."""
        if self.limiter is not None:
            self._undo.insert(0, partial(_leave, self.limiter, self))
        while self._undo:
            try:
                self._undo.pop()()
            except BaseException:
                facts = {"happening": "limiter-not-stopped"}
                _log.exception("the limiter could not be stopped: %r", self.limiter, extra=facts)


# In a forked child: the Batchers stayed in the parent, and its threads may hold a lock.
begin_in_child(_uses.clear)
