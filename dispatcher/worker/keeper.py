"""The keeper: one thread that extends leases and settles what has ended, many at a time."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from dispatcher.timeline import (
    Consumer,
    Extended,
    Lease,
    NoAnswer,
    Outcome,
    TimelineUnavailableError,
)
from dispatcher.worker.holds import Held, Holds
from dispatcher.worker.totals import Totals
from limiters.damped_log import DampedLog

logger = logging.getLogger(__name__)

AGAIN = 0.2
"""Seconds until something is tried again for which Redis had no answer."""

LONGEST_SLEEP = 1.0
"""For as long at most it does not see what was leased meanwhile."""


@dataclass(slots=True)
class Work:
    """What is to be done with messages that have ended."""

    act: Callable[[list[Lease]], list[Outcome]]
    kind: str
    """The total that it counts for."""
    held: list[Held] = field(default_factory=list)


class Keeper:
    """See the module. `failed` is told an error of its own, which ends it."""

    def __init__(
        self,
        consumer: Consumer,
        holds: Holds,
        totals: Totals,
        lease_time: float,
        *,
        failed: Callable[[BaseException], None],
        overran: Callable[[int], None],
    ) -> None:
        self._consumer = consumer
        self._holds = holds
        self._totals = totals
        self._lease_time = lease_time
        self._failed = failed
        self._overran = overran
        self._inbox: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._left: list[Work] = []
        self._silent = False
        self._damped = DampedLog(logger)
        self._deadline = math.inf
        self._nap = min(LONGEST_SLEEP, lease_time / 10)
        self._thread = threading.Thread(target=self._run, name="worker-keeper", daemon=True)
        self.beat = time.monotonic()
        """When it was last seen alive."""

    def start(self) -> None:
        """Begins."""
        self.beat = time.monotonic()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Ends when all is settled, or after `timeout`."""
        self._deadline = time.monotonic() + timeout
        self._inbox.put(None)
        self._thread.join(timeout + 1.0)

    # What can be handed in, from any thread.

    def delete(self, held: list[Held]) -> None:
        """They are done."""
        self._put(Work(self._consumer.delete, "done", held))

    def release(self, held: list[Held], delay: float) -> None:
        """They failed, and are due again after `delay`."""
        self._put(Work(lambda leases: self._consumer.release(leases, delay=delay), "retried", held))

    def bury(self, held: list[Held], reason: str) -> None:
        """They are given up."""
        self._put(Work(lambda leases: self._consumer.bury(leases, reason), "dead", held))

    def give_back(self, held: list[Held]) -> None:
        """They have not begun, and are due at once."""

        def release(leases: list[Lease]) -> list[Outcome]:
            return self._consumer.release(leases, delay=0, attempted=False)

        self._put(Work(release, "returned", held))

    def _put(self, work: Work) -> None:
        if work.held:
            self._inbox.put(work)

    # Its thread.

    def _run(self) -> None:
        try:
            stopping = False
            while not (stopping and self._is_done()):
                stopping = self._gather() or stopping
                now = self.beat = time.monotonic()
                if overdue := self._holds.overrun(now):
                    self._overran(len(overdue))
                self._extend(now)
                self._settle()
        except BaseException as error:
            self._failed(error)

    def _is_done(self) -> bool:
        return not self._left or time.monotonic() > self._deadline

    def _gather(self) -> bool:
        """Waits for something to do; whether it is to stop."""
        stop = False
        wait = max(0.0, min(self._nap, self._holds.next_look() - time.monotonic()))
        if self._left:
            wait = min(wait, AGAIN)
        try:
            one = self._inbox.get(timeout=wait) if wait else self._inbox.get_nowait()
            while True:
                if one is None:
                    stop = True
                else:
                    self._left.append(one)
                one = self._inbox.get_nowait()
        except queue.Empty:
            return stop

    def _extend(self, now: float) -> None:
        held = self._holds.to_extend(now)
        if not held:
            return
        try:
            outcomes = self._consumer.extend([one.lease for one in held], self._lease_time)
        except TimelineUnavailableError as error:
            self._complain(error)
            self._holds.extended(held, now, answered=False)
            return
        self._silent = False
        pairs = list(zip(held, outcomes, strict=True))
        self._holds.extended([it for it, said in pairs if isinstance(said, Extended)], now)
        unsaid = [it for it, said in pairs if isinstance(said, NoAnswer)]
        self._holds.extended(unsaid, now, answered=False)
        gone = [it for it, said in pairs if not isinstance(said, (Extended, NoAnswer))]
        self._holds.lost(gone)

    def _settle(self) -> None:
        """Together what is to be done alike, so that one call does for many batches."""
        works, self._left = self._left, []
        deletes = [one for one in works if one.kind == "done"]
        rest = [one for one in works if one.kind != "done"]
        if deletes:
            together = [it for one in deletes for it in one.held]
            rest.insert(0, Work(self._consumer.delete, "done", together))
        for number, work in enumerate(rest):
            if not self._do(work):  # the others need not find out one after the other
                for other in rest[number + 1 :]:
                    self._try_again(other, other.held)
                return

    def _do(self, work: Work) -> bool:
        """Whether there was an answer."""
        try:
            outcomes = work.act([one.lease for one in work.held])
        except TimelineUnavailableError as error:
            self._complain(error)
            self._try_again(work, work.held)
            return False
        self._silent = False
        pairs = list(zip(work.held, outcomes, strict=True))
        unsaid = [it for it, said in pairs if isinstance(said, NoAnswer)]
        lost = [it for it, said in pairs if not (said.ok or isinstance(said, NoAnswer))]
        answered = [it for it, said in pairs if not isinstance(said, NoAnswer)]
        self._holds.settled(answered)
        self._totals.add(**{work.kind: len(answered) - len(lost), "lost": len(lost)})
        if unsaid:
            self._try_again(work, unsaid)
        if lost:
            self._damped.log(
                logging.WARNING,
                "%d messages could not be %s: their leases had ended, and they are or will be "
                "given out again; is lease_time too short, or was this process stopped?",
                *(len(lost), _PAST[work.kind]),
                extra={"happening": "leases-lost", "messages": len(lost)},
            )
        return True

    def _try_again(self, work: Work, held: list[Held]) -> None:
        """As long as it makes sense: a lease that has ended can be neither deleted nor released."""
        ended = [one for one in held if one.lease.is_expired()]
        self._holds.settled(ended)
        self._totals.add(lost=len(ended))
        left = [one for one in held if not one.lease.is_expired()]
        if left:
            self._left.append(Work(work.act, work.kind, left))

    def _complain(self, error: TimelineUnavailableError) -> None:
        if not self._silent:
            facts = {"happening": "redis-away"}
            logger.warning("what has ended waits to be settled: %s", error, extra=facts)
        self._silent = True


_PAST = {"done": "deleted", "retried": "released", "dead": "buried", "returned": "given back"}
