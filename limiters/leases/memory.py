"""MemoryLeaseManager: the leases of a limit that is shared inside one process."""

from __future__ import annotations

import os
import threading
import weakref

from limiters._support.validation import Seconds, text
from limiters.clock import Clock, clock_of
from limiters.leases.coordinator import Coordinator
from limiters.leases.manager import LimitView
from limiters.leases.messages import Reply, Request, Terms, check_partitions, lease_seconds

_all: weakref.WeakSet[MemoryLeaseManager] = weakref.WeakSet()


class MemoryLeaseManager:
    """Keeps the leases in memory: for several limiters of one process, and for tests.

    It shares nothing with other processes. Its rules are those of RedisLeaseManager, but that
    it cannot forget: so a new one grants at once. In a forked child it begins anew. Thread-safe.

    >>> from limiters.leases import MemoryLeaseManager
    >>> MemoryLeaseManager(lease_time=2)
    MemoryLeaseManager('memory')
    """

    def __init__(
        self,
        name: str = "memory",
        *,
        lease_time: Seconds = 5.0,
        clock: Clock | None = None,
    ) -> None:
        self._name = text("name", name)
        self._lease_time = lease_seconds(lease_time)
        self._clock = clock_of(clock)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._coordinator = Coordinator(forgetful=False)

    @property
    def name(self) -> str:
        """What the limit is called."""
        return self._name

    @property
    def lease_time(self) -> float:
        """For how long an instance holds what it was granted, unless it renews."""
        return self._lease_time

    def __repr__(self) -> str:
        return f"MemoryLeaseManager({self._name!r})"

    def sync(self, request: Request) -> Reply:
        """Serves one request."""
        with self._lock:
            return self._coordinator.sync(request, self._now_ms())

    def set_capacity(self, terms: Terms, ramp: float | None = None) -> None:
        """Changes the capacity to that of `terms`, a raise by at most `ramp` a second."""
        check_partitions(terms)
        with self._lock:
            per_ms = None if ramp is None else ramp / 1000
            self._coordinator.set_capacity(terms, self._now_ms(), ramp=per_ms)

    def evict(self, instance: str) -> bool:
        """Takes everything from `instance` and grants it nothing more; whether it is known."""
        with self._lock:
            return self._coordinator.evict(instance)

    def delete(self) -> bool:
        """Forgets the limit; whether there was one."""
        with self._lock:
            known = self._coordinator.terms is not None
            self._coordinator.forget()
            return known

    def look(self) -> LimitView | None:
        """What is known of the limit, if there is one."""
        with self._lock:
            return self._coordinator.look(self._now_ms())

    def close(self) -> None:
        """There is nothing to let go of."""

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)


def _begin_in_child() -> None:
    # The lock may be held by a thread that stayed in the parent, amid a change.
    for manager in list(_all):
        manager._begin()


os.register_at_fork(after_in_child=_begin_in_child)
