"""The settler: a thread that deletes, releases and gives up messages, many in one call.

It is not the thread that extends leases. So leases of running calls and of waiting messages are
extended all the while, however much there is to settle and however slow Redis is.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from itertools import islice

from dispatcher.timeline import (
    Bury,
    Delete,
    Ending,
    NoAnswer,
    ReleaseLease,
    TimelineUnavailableError,
)
from dispatcher.worker._environment import WorkerEnvironment
from dispatcher.worker._log_words import counted
from dispatcher.worker._messages import Held
from limiters._support.rate_limited_log import RateLimitedLog

logger = logging.getLogger("dispatcher.worker")

AGAIN = 0.2
"""Seconds before a retry if Redis did not answer."""

LONGEST_SLEEP = 1.0

MOST_AT_ONCE = 2_000
"""Maximum number of messages in one call: what is settled makes room for due messages."""

UNTOUCHED = ReleaseLease(attempted=False)
"""The ending of a message that has not begun: due now, and not counted as an attempt."""

Work = tuple[Held, Ending]


class Settler:
    """Settles the messages of one worker on its thread."""

    def __init__(self, environment: WorkerEnvironment) -> None:
        self._consumer = environment.consumer
        self._topic = environment.timeline.topic
        self._holds = environment.holds
        self._totals = environment.totals
        self._failed = environment.failed
        self._inbox: queue.SimpleQueue[list[Work] | None] = queue.SimpleQueue()
        self._left: deque[Work] = deque()
        self._outage = environment.outage(logger)
        self._damped = RateLimitedLog(logger)
        self._deadline = math.inf
        self._thread = threading.Thread(target=self._run, name="worker-settler", daemon=True)
        self.beat = time.monotonic()
        """When the thread last gave a sign of life."""

    def start(self) -> None:
        self.beat = time.monotonic()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Stop when all is settled, or after `timeout` seconds."""
        self._deadline = time.monotonic() + timeout
        self._inbox.put(None)
        self._thread.join(timeout + 1.0)
        left = self._holds.settling
        if left:
            done = sum(total_of(ending) in ("done", "dead") for _, ending in list(self._left))
            logger.warning(
                "Redis does not answer, so %d of the messages could not be settled: they are given "
                "out again when their leases end, and %d that the handler has done with may be "
                "handled twice",
                left,
                done,
                extra={"happening": "not-settled", "topic": self._topic, "messages": left},
            )

    # Input, from any thread.

    def settle(self, works: list[Work]) -> None:
        """Settle messages that have ended, each in its own way."""
        if works:
            self._inbox.put(works)

    def give_back(self, held: Iterable[Held]) -> None:
        """Give back messages that have not begun; they are due immediately."""
        self.settle([(one, UNTOUCHED) for one in held])

    # Runs on its thread.

    def _run(self) -> None:
        try:
            stopping = False
            while not (stopping and self._is_done()):
                stopping = self._gather() or stopping
                self.beat = time.monotonic()
                if self._left and not self._settle():
                    time.sleep(AGAIN)
        except BaseException as error:
            self._failed(error)

    def _is_done(self) -> bool:
        return not self._left or time.monotonic() > self._deadline

    def _gather(self) -> bool:
        """Collect new work; wait for it if nothing is left. Return whether to stop."""
        stop = False
        try:
            one = self._inbox.get_nowait() if self._left else self._inbox.get(timeout=LONGEST_SLEEP)
            while True:
                if one is None:
                    stop = True
                else:
                    self._left += one
                one = self._inbox.get_nowait()
        except queue.Empty:
            return stop

    def _settle(self) -> bool:
        """Settle messages. Return whether Redis answered."""
        works, asked = list(islice(self._left, MOST_AT_ONCE)), time.monotonic()
        try:
            outcomes = self._consumer.settle((held.lease, ending) for held, ending in works)
        except TimelineUnavailableError as error:
            self._outage.began(error, asked, "what has ended waits to be settled: %s", error)
            self._give_up_ended()
            return False
        self._outage.ended(asked, "what has ended is settled")
        unsaid: list[Work] = []
        settled: list[Held] = []
        counts, lost = Counter[str](), Counter[str]()
        for work, outcome in zip(works, outcomes, strict=True):
            self._left.popleft()
            if isinstance(outcome, NoAnswer):
                unsaid.append(work)
                continue
            settled.append(work[0])
            (counts if outcome.ok else lost)[total_of(work[1])] += 1
        self._left += unsaid
        self._holds.settled(settled)
        self._totals.add(**counts, lost=lost.total())
        self._tell_lost(lost)
        self._consumer.look_again()
        if unsaid:
            self._give_up_ended()
        return not unsaid

    def _give_up_ended(self) -> None:
        """Drop messages whose lease has ended: they can be neither deleted nor released."""
        ended = [held for held, _ in self._left if held.lease.is_expired()]
        if ended:
            self._left = deque(work for work in self._left if not work[0].lease.is_expired())
            self._holds.settled(ended)
            self._totals.add(lost=len(ended))

    def _tell_lost(self, lost: Counter[str]) -> None:
        for total, number in lost.items():
            self._damped.log(
                logging.WARNING,
                "%s of topic %s could not be %s: their leases had ended, and they are or will be "
                "given out again; is lease_time too short, or was this process stopped?",
                *(counted(number), self._topic, _PAST[total]),
                extra={"happening": "leases-lost", "topic": self._topic, "messages": number},
            )


_PAST = {"done": "deleted", "retried": "released", "dead": "buried", "returned": "given back"}


def total_of(ending: Ending) -> str:
    """Return the total that an ending counts for.

    >>> total_of(UNTOUCHED), total_of(ReleaseLease(delay=5))
    ('returned', 'retried')
    """
    match ending:
        case Delete():
            return "done"
        case Bury():
            return "dead"
        case ReleaseLease(attempted=True):
            return "retried"
    return "returned"
