"""A pretended datastore with a real limit: it refuses what exceeds it, like Cosmos does."""

from __future__ import annotations

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
        self.entries: list[Entry] = []
        """What was written."""
        self.refusals: list[Entry] = []
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
                self.refusals.append(Entry(now, who, cost, records, waited))
                raise TooManyRequestsError
            self._recent.append((now, cost))
            self._spent += cost
            self.entries.append(Entry(now, who, cost, records, waited))
            self.written += records
        time.sleep(self.latency)

    def most_asked(self) -> float:
        """The most that was asked for in any second, written or refused, in capacities."""
        log = sorted((one.at, one.cost) for one in (*self.entries, *self.refusals))
        most = asked = 0.0
        first = 0
        for now, cost in log:
            asked += cost
            while log[first][0] <= now - 1:
                asked -= log[first][1]
                first += 1
            most = max(most, asked)
        return most / self.capacity

    def use(self, slice_: float, since: float) -> list[float]:
        """The share of the capacity used in each slice of time, from then to the last write."""
        if not self.entries:
            return []
        shares = [0.0] * (int((self.entries[-1].at - since) / slice_) + 1)
        for one in self.entries:
            shares[int((one.at - since) / slice_)] += one.cost / self.capacity / slice_
        return shares
