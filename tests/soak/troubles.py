"""The troubles of a soak, one after the other."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator

from examples.reminders.store import MeteredStore
from tests.soak.cluster import Cluster
from tests.soak.handlers import DUE, IN_ORDER, TOGETHER
from tests.waiting import until

AWAY = 4.0
"""Seconds for which Redis is away: longer than a lease."""
PATIENCE = 300.0
"""Seconds for which a sender may send nothing, on a machine that has other things to do."""


class Troubles:
    """The harm that can be done to a cluster, by name."""

    def __init__(
        self, cluster: Cluster, store: MeteredStore, alerted: Callable[[str], bool], seed: int
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._alerted = alerted
        self.dice = random.Random(seed)
        self.done: list[str] = []
        self.spark_kills = 0
        self.each: dict[str, Callable[[], None]] = {
            "a Python worker of Spark is killed": self._kill_python,
            "Redis is away": self._restart_redis,
            "an executor is killed": self._kill_executor,
            "a worker is killed": self._kill_worker,
            "all workers are stopped for a while": self._pause_workers,
            "the driver is killed": self._kill_driver,
        }

    def cause(self, what: str) -> None:
        """Cause one trouble. Return when all senders go on."""
        self.done.append(what)
        self.each[what]()
        self.wait_for(IN_ORDER, TOGETHER, DUE)

    def wait_for(self, *who: str) -> None:
        """Wait until each sender has sent something more."""
        seen = len(self._store.log)

        def came() -> bool:
            return {told["who"] for _, _, _, told in self._store.log[seen:]} >= set(who)

        until(came, within=PATIENCE)

    def _kill_python(self) -> None:
        self.spark_kills += 1
        with contextlib.suppress(ProcessLookupError):  # its executor was killed before
            os.kill(next(self._python_workers()), signal.SIGKILL)

    def _kill_executor(self) -> None:
        self.spark_kills += 1
        self._cluster.kill_executor(self.dice.randrange(2))

    def _kill_driver(self) -> None:
        self.spark_kills += 2  # both executors end with it
        self._cluster.kill_driver()

    def _kill_worker(self) -> None:
        self._cluster.kill_worker(self.dice.randrange(100))

    def _pause_workers(self) -> None:
        self._cluster.stop_workers()
        until(lambda: self._alerted("NobodyConsumes"))
        self._cluster.start_workers()

    def _restart_redis(self) -> None:
        self._cluster.restart_redis(away=AWAY)

    def _python_workers(self) -> Iterator[int]:
        """Iterate over the processes that have sent from Spark, the latest first."""
        for _, _, _, told in reversed(self._store.log):
            if told["who"] in (IN_ORDER, TOGETHER):
                yield told["pid"]
