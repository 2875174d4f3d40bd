"""A pretended datastore with a real limit: it refuses requests beyond it, as Cosmos DB does."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable

from dispatcher.report import Entry


class TooManyRequestsError(Exception):
    """429: the limit of this second is reached."""


def most_in_a_second(entries: Iterable[Entry]) -> float:
    """Return the highest cost of `entries` in any second."""
    log = sorted((one.at, one.cost) for one in entries)
    most = cost_now = 0.0
    first = 0
    for now, cost in log:
        cost_now += cost
        while log[first][0] <= now - 1:
            cost_now -= log[first][1]
            first += 1
        most = max(most, cost_now)
    return most


class Datastore:
    """Allows `capacity` in any second, answers after `latency`, and counts. Thread-safe.

    Before the first write nothing is used up, so the first second's capacity may be written
    immediately, and each further one a second later: see `seconds_at_best`.
    """

    def __init__(self, capacity: float, latency: float = 0.01) -> None:
        self.capacity = capacity
        self.latency = latency
        self.written = 0
        self.refused = 0
        self.entries: list[Entry] = []
        """The writes that were accepted."""
        self.refusals: list[Entry] = []
        self._recent: deque[tuple[float, float]] = deque()
        self._spent = 0.0
        self._lock = threading.Lock()

    def write(self, records: int, cost: float, who: str = "", waited: float = 0.0) -> None:
        """Write `records` that have `waited` so long, or raise TooManyRequestsError."""
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

    def seconds_at_best(self, records: int, cost: float) -> int:
        """Return the minimum of seconds from the beginning to the last write of `records`, each of
        that `cost`: t seconds suffice to write the capacity once, and then floor(t) times."""
        in_a_second = int(self.capacity // cost)
        return math.ceil(records / in_a_second) - 1

    def most_asked(self) -> float:
        """Return the most that was requested in any second, written or refused, in capacities."""
        return most_in_a_second([*self.entries, *self.refusals]) / self.capacity

    def use(self, slice_: float, since: float) -> list[float]:
        """Return the share of the capacity used in each slice of time until the last write."""
        if not self.entries:
            return []
        shares = [0.0] * (int((self.entries[-1].at - since) / slice_) + 1)
        for one in self.entries:
            shares[int((one.at - since) / slice_)] += one.cost / self.capacity / slice_
        return shares
