"""MemoryLeaseManager: the leases of a limit that is shared inside one process."""

from __future__ import annotations

import math
import threading
import uuid
import weakref

from limiters._support.clock import clock_of
from limiters._support.forking import begin_in_child
from limiters._support.signatures import lists, takes
from limiters._support.validation import in_seconds, text
from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.state import Registry
from limiters.leases._format import NEVER
from limiters.leases._messages import Reply, Request
from limiters.leases._operator import TermsChange
from limiters.leases._options import MemoryLeaseOptions
from limiters.leases.protocol import LeaseManager, LimitView, served, view_of

SERVER = "memory"

_all: weakref.WeakSet[MemoryLeaseManager] = weakref.WeakSet()


@lists(MemoryLeaseOptions)
class MemoryLeaseManager(LeaseManager):
    """Keeps the leases in memory: for several limiters of one process, and for tests.

    It shares nothing with other processes. Its rules are those of RedisLeaseManager; it knows
    that it was never anywhere else, so a new limit grants at once. In a forked child it begins
    as a new one. Thread-safe.

    >>> from limiters.leases import MemoryLeaseManager
    >>> MemoryLeaseManager(lease_time=2)
    MemoryLeaseManager('memory')
    """

    @takes(MemoryLeaseOptions)
    def __init__(self, options: MemoryLeaseOptions) -> None:
        self._name = options.name
        self._lease_time = in_seconds(options.lease_time)
        self._clock = clock_of(options.clock)
        self._begin()
        _all.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._coordinator = Coordinator(self._name, default_span=0)  # there is no other server
        self._coordinator.registry = Registry(SERVER, NEVER)

    @property
    def name(self) -> str:
        return self._name

    @property
    def lease_time(self) -> float:
        return self._lease_time

    def __repr__(self) -> str:
        return f"MemoryLeaseManager({self._name!r})"

    def sync(self, request: Request) -> Reply:
        with self._lock:
            return served(self._coordinator.sync(request, SERVER, self._now()), request, self._name)

    @takes(TermsChange)
    def set_terms(self, change: TermsChange) -> bool:
        with self._lock:
            limit = self._coordinator.limit
            known = limit.terms if limit is not None and not limit.deleted else None
            return self._coordinator.set_terms(
                SERVER, self._now(), uuid.uuid4().hex, change.of(known)
            )

    def evict(self, instance: str) -> bool:
        text("instance", instance)
        with self._lock:
            return self._coordinator.evict(instance)

    def delete(self) -> bool:
        with self._lock:
            return self._coordinator.delete(SERVER, self._now(), uuid.uuid4().hex)

    def look(self) -> LimitView | None:
        with self._lock:
            coordinator, now = self._coordinator, self._now()
            if coordinator.limit is None or coordinator.limit.deleted:
                return None
            return view_of(
                coordinator.limit, coordinator.totals.counts, now, coordinator.default_span
            )

    def close(self) -> None:
        """There is nothing to let go of."""

    def _now(self) -> int:
        return math.floor(self._clock.now() * 1000)


def _begin_in_child() -> None:
    # The lock may be held by a thread that stayed in the parent, in the middle of a change.
    for manager in list(_all):
        manager._begin()


begin_in_child(_begin_in_child)
