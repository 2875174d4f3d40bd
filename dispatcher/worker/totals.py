"""Counters of a worker."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class WorkerTotals:
    """Numbers of messages since the start, unless noted otherwise. They only grow. Thread-safe."""

    leased: int = 0
    done: int = 0
    """Messages that were handled and deleted."""
    retried: int = 0
    """Messages that were released into the future after a failure."""
    dead: int = 0
    returned: int = 0
    """Messages that were given back without having begun."""
    throttled: int = 0
    """Messages that the datastore refused, and that wait in the worker."""
    lost: int = 0
    """Leases that ended or were lost before their message began or could be acknowledged."""
    hung: int = 0
    """Calls of the handler that took longer than they may."""
    batches: int = 0
    """Calls of the handler that have returned."""
    batches_failed: int = 0
    _lock: threading.Lock = field(
        default_factory=threading.Lock, init=False, repr=False, compare=False
    )

    def add(self, **amounts: int) -> None:
        with self._lock:
            for name, number in amounts.items():
                setattr(self, name, getattr(self, name) + number)
