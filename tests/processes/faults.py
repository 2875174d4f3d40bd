"""Faults in a cluster of processes: kills, stops, and connections to Redis that are cut."""

from __future__ import annotations

import heapq
import signal
import time
from collections.abc import Callable, Sequence
from itertools import count
from random import Random

from tests.processes import Processes
from tests.servers.proxy import Proxy

STOPPED = (0.5, 3.5)
"""For how many seconds a process is stopped, at least and at most,"""

CUT_OFF = (0.5, 5.0)
"""Seconds for which those behind a proxy cannot reach Redis."""

PAUSE = (0.1, 1.0)
"""Seconds between one fault and the next."""


class Faults:
    """Faults at random, from a seed. A process that is killed has a successor, of another name."""

    def __init__(self, cluster: Processes, proxies: Sequence[Proxy], seed: int) -> None:
        self._cluster = cluster
        self._proxies = list(proxies)
        self._chance = Random(seed)
        self._mends: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._faulty = set[object]()
        self.happened = dict.fromkeys(("killed", "stopped", "cut off"), 0)

    def cause(self, seconds: float) -> None:
        """One after the other, for so long; all are repaired at the end."""
        end = time.monotonic() + seconds
        faults = (self._kill, self._stop, self._cut_off)
        while time.monotonic() < end:
            self._chance.choice(faults)()
            time.sleep(self._chance.uniform(*PAUSE))
            self._mend(time.monotonic())
        while self._mends:
            self._mend(self._mends[0][0])

    def _kill(self) -> None:
        names = self._chance.choice(list(self._cluster.running))
        process = self._cluster.running[names]
        if process in self._faulty:
            return
        process.end()
        del self._cluster.running[names]
        self._cluster.start([[f"{name}'" for name in names]], url=process.plan.url)
        self.happened["killed"] += 1

    def _stop(self) -> None:
        process = self._chance.choice(list(self._cluster.running.values()))
        if process not in self._faulty:
            process.signal(signal.SIGSTOP)
            self._mend_later(process, STOPPED, lambda: process.signal(signal.SIGCONT))
            self.happened["stopped"] += 1

    def _cut_off(self) -> None:
        proxy = self._chance.choice(self._proxies)
        if proxy not in self._faulty:
            proxy.refuse()
            self._mend_later(proxy, CUT_OFF, proxy.accept)
            self.happened["cut off"] += 1

    def _mend_later(
        self, one: object, between: tuple[float, float], mend: Callable[[], object]
    ) -> None:
        def mended() -> None:
            mend()
            self._faulty.discard(one)

        self._faulty.add(one)
        due = time.monotonic() + self._chance.uniform(*between)
        heapq.heappush(self._mends, (due, next(self._numbers), mended))

    def _mend(self, until: float) -> None:
        while self._mends and self._mends[0][0] <= until:
            heapq.heappop(self._mends)[2]()
