"""A pretended datastore with a real limit: it refuses what exceeds it, like Cosmos does."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque

from dispatcher.report import Entry


class TooManyRequestsError(Exception):
    """429: the second is full."""


class Datastore:
    """Allows `capacity` in any second, answers after `latency`, and counts. Thread-safe."""

    def __init__(self, capacity: float, latency: float = 0.01) -> None:
        self.capacity = capacity
        self.latency = latency
        self.written = 0
        self.refused = 0
        self._log: list[tuple[float, float]] = []
        self.entries: list[Entry] = []
        """What was written."""
        self.refusals: list[float] = []
        """When something was refused."""
        self._recent: deque[tuple[float, float]] = deque()
        self._spent = 0.0
        self._lock = threading.Lock()

    def write(self, records: int, cost: float, who: str = "", waited: float = 0.0) -> None:
        """Writes `records` that have `waited` for `cost`, or raises TooManyRequestsError."""
        with self._lock:
            now = time.monotonic()
            while self._recent and self._recent[0][0] <= now - 1:
                self._spent -= self._recent.popleft()[1]
            if self._spent + cost > self.capacity:
                self.refused += 1
                self.refusals.append(now)
                raise TooManyRequestsError
            self._recent.append((now, cost))
            self._spent += cost
            self._log.append((now, cost))
            self.entries.append(Entry(now, who, cost, records, waited))
            self.written += records
        time.sleep(self.latency)

    def worst_window(self) -> float:
        """The largest share of the capacity that was used in any second."""
        times, costs = zip(*self._log, strict=True) if self._log else ((), ())
        sums = [0.0, *itertools.accumulate(costs)]
        worst, first = 0.0, 0
        for last, now in enumerate(times):
            while times[first] <= now - 1:
                first += 1
            worst = max(worst, sums[last + 1] - sums[first])
        return worst / self.capacity

    def used(self) -> float | None:
        """The share of the capacity that was used in whole seconds, from the first write on; None
        if there was none."""
        began, ended = (self._log[0][0], self._log[-1][0]) if self._log else (0.0, 0.0)
        if not (whole := int(ended - began)):
            return None
        return sum(cost for at, cost in self._log if at < began + whole) / whole / self.capacity

    def use(self, slice_: float = 0.1) -> list[float]:
        """The share of the capacity used in each slice of time, first to last."""
        if not self._log:
            return []
        began = self._log[0][0]
        shares = [0.0] * (int((self._log[-1][0] - began) / slice_) + 1)
        for at, cost in self._log:
            shares[int((at - began) / slice_)] += cost / self.capacity / slice_
        return shares
