"""The keeper: a thread that extends leases, and finds calls that take too long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from dispatcher.timeline import (
    Extended,
    NoAnswer,
    TimelineUnavailableError,
)
from dispatcher.worker._environment import WorkerEnvironment

logger = logging.getLogger("dispatcher.worker")

LONGEST_SLEEP = 1.0
"""Maximum sleep in seconds, during which new leases go unnoticed."""


class Keeper:
    """Extends leases on its thread. `overran` is called with the number of calls that have taken
    too long."""

    def __init__(self, environment: WorkerEnvironment, *, overran: Callable[[int], None]) -> None:
        self._consumer = environment.consumer
        self._holds = environment.holds
        self._lease_time = environment.lease_time
        self._failed = environment.failed
        self._overran = overran
        self._outage = environment.outage(logger)
        self._stopped = threading.Event()
        self._nap = min(LONGEST_SLEEP, self._lease_time / 10)
        self._thread = threading.Thread(target=self._run, name="worker-keeper", daemon=True)
        self.beat = time.monotonic()
        """When the thread last gave a sign of life."""

    def start(self) -> None:
        self.beat = time.monotonic()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop after the present step, or after `timeout` seconds."""
        self._stopped.set()
        self._thread.join(timeout)

    # Runs on its thread.

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self._until_next()):
                now = self.beat = time.monotonic()
                if overdue := self._holds.overrun(now):
                    self._overran(len(overdue))
                self._extend(now)
        except BaseException as error:
            self._failed(error)

    def _until_next(self) -> float:
        return max(0.0, min(self._nap, self._holds.next_look() - time.monotonic()))

    def _extend(self, now: float) -> None:
        held = self._holds.to_extend(now)
        if not held:
            return
        asked = time.monotonic()
        try:
            outcomes = self._consumer.extend([one.lease for one in held], self._lease_time)
        except TimelineUnavailableError as error:
            self._outage.began(error, asked, "leases cannot be extended at present: %s", error)
            self._holds.extended(held, now, answered=False)
            return
        self._outage.ended(asked, "leases are extended again")
        pairs = list(zip(held, outcomes, strict=True))
        self._holds.extended([it for it, said in pairs if isinstance(said, Extended)], now)
        unsaid = [it for it, said in pairs if isinstance(said, NoAnswer)]
        self._holds.extended(unsaid, now, answered=False)
        gone = [it for it, said in pairs if not isinstance(said, (Extended, NoAnswer))]
        self._holds.lost(gone)
