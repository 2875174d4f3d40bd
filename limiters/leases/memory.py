"""MemoryLeaseManager: the leases of a limit that is shared inside one process."""

from __future__ import annotations

import math
import os
import threading
import uuid
import weakref

from limiters._support.clock import Clock, clock_of
from limiters._support.validation import Seconds, text
from limiters.leases._coordinator import Coordinator
from limiters.leases._coordinator.state import Registry
from limiters.leases._format import NEVER
from limiters.leases._messages import Reply, Request, change_of, lease_seconds
from limiters.leases.protocol import LeaseManager, LimitView, view_of

SERVER = "memory"

_all: weakref.WeakSet[MemoryLeaseManager] = weakref.WeakSet()


class MemoryLeaseManager(LeaseManager):
    """Keeps the leases in memory: for several limiters of one process, and for tests.

    It shares nothing with other processes. Its rules are those of RedisLeaseManager; it knows
    that it was never anywhere else, so a new limit grants at once. In a forked child it begins
    as a new one. Thread-safe.

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
            return self._coordinator.sync(request, SERVER, self._now())

    def set_terms(
        self,
        *,
        capacity: float | None = None,
        factor: float | None = None,
        period: float | None = None,
        lease_time: float | None = None,
        ramp: float | None = None,
    ) -> bool:
        change = change_of(capacity, factor, period, lease_time, ramp)
        with self._lock:
            return self._coordinator.set_terms(
                SERVER,
                self._now(),
                uuid.uuid4().hex,
                capacity=change.capacity,
                factor=change.factor,
                period=change.period,
                lease=change.lease,
                ramp=change.ramp,
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


os.register_at_fork(after_in_child=_begin_in_child)
