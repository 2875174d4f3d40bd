"""One worker as a process: signals, probes, and reports to its supervisor."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from dispatcher.timeline import TimelineUnavailableError
from dispatcher.worker._process.health_server import Pages, ServedPage, verdict
from dispatcher.worker._process.systemd import READY, STOPPING, WATCHDOG, Notifier
from dispatcher.worker.worker import Life, Worker
from limiters._redis.faults import is_misaddressed
from limiters._redis.outages import Outage
from limiters._support.latch import Latch
from limiters.errors import DispatcherError

logger = logging.getLogger("dispatcher.worker")

STEP = 0.5
"""Maximum seconds between two checks of a running worker."""


TOGETHER = 1.0
"""Seconds after the first signal in which others count as the same request: `timeout`, shells and
terminals signal a process, and then its group."""


class Signals:
    """The first SIGTERM or SIGINT asks to stop; one that comes more than `TOGETHER` later ends the
    process immediately, with 128 + its number. A supervisor asks in another way, so that signalling
    it and its processes together, as systemd does, asks for one drain. For the main thread."""

    def __init__(self) -> None:
        self.stop = Latch()
        self.at_once: Callable[[], None] = lambda: None
        """Called before a second signal ends the process."""
        self._first: float | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._caught)

    def ask(self) -> None:
        """Ask to stop without a signal. From any thread."""
        self.stop.set()

    def _caught(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is not None and now - self._first > TOGETHER:
            # The interrupted code may hold a lock: logging would wait for it.
            self.at_once()
            os.write(2, b"stopped immediately; its leases run out\n")
            os._exit(128 + number)
        self._first = self._first or now
        self.stop.set()


def run(
    worker: Worker,
    signals: Signals,
    notifier: Notifier,
    *,
    host: str,
    port: int | None,
    more_pages: dict[str, Callable[[], ServedPage]],
    fail_fast: bool = False,
    create_topic: bool = False,
) -> None:
    """Work until a signal comes, then drain.

    WorkerFailedError, PortInUseError; NoTopicError if the topic does not exist and is not to be
    created; with `fail_fast` TimelineUnavailableError if Redis does not answer.
    """
    pages, topic = None, worker.timeline.topic
    if port is not None:
        probes = {
            "/healthz": lambda: verdict(worker.trouble()),
            "/readyz": lambda: verdict(unready(worker)),
        }
        pages = Pages(probes | more_pages, host, port)
        facts = {"happening": "serving", "url": pages.url, "where": worker.timeline.where}
        logger.info("%s at %s", ", ".join(probes | more_pages), pages.url, extra=facts)
    try:
        life = _Life(worker, signals, notifier)
        life.await_topic(fail_fast=fail_fast, create=create_topic)
        if not signals.stop.is_set():
            # Before a message can ask for it: that may end the process as soon as it is leased.
            notifier.send(READY, f"MAINPID={os.getpid()}")
            worker.start()
            started = {"happening": "worker-started", "topic": topic}
            logger.info("%r has started", worker, extra=started)
            life.watch()
        notifier.send(STOPPING)
        if worker.life is Life.RUNNING:
            calls = worker.in_flight
            going = {"happening": "worker-stopping", "topic": topic, "calls": calls}
            logger.info("stopping: calls of the handler under way: %d", calls, extra=going)
            worker.stop()
        if worker.life is not Life.NEW:
            worker.wait()  # a worker that has failed ends by itself, and only then reports it
        totals = worker.totals
        stopped = {
            "happening": "worker-stopped",
            "topic": topic,
            "done": totals.done,
            "retried": totals.retried,
            "dead": totals.dead,
            "returned": totals.returned,
            "lost": totals.lost,
        }
        logger.info(
            "stopped: %(done)d messages done, %(retried)d to be tried again, %(dead)d dead, "
            "%(returned)d given back, %(lost)d lost",
            stopped,
            extra=stopped,
        )
    finally:
        if pages is not None:
            pages.close()


def unready(worker: Worker) -> str:
    """Return why it does no work at present; "" if it works."""
    if worker.life is Life.NEW:
        return "it starts: Redis has not answered yet"
    return worker.unready()


class NoTopicError(DispatcherError):
    """The topic does not exist."""

    def __init__(self, topic: str, where: str) -> None:
        self.topic = topic
        self.where = where
        super().__init__(
            f"there is no topic {topic!r} in {where}: is it spelled right, and the prefix? Its "
            "first producer makes it, a worker with --create-topic too"
        )


class _Life:
    """The main thread's part while the worker works, or waits for its topic."""

    def __init__(self, worker: Worker, signals: Signals, notifier: Notifier) -> None:
        self._worker = worker
        self._signals = signals
        self._notifier = notifier
        self._interval = notifier.watchdog_interval
        self._next_word = 0.0

    def await_topic(self, *, fail_fast: bool, create: bool) -> None:
        """Return when the topic exists, or a signal has come."""
        timeline = self._worker.timeline
        outage = Outage(logger, timeline.where, f"topic {timeline.topic}", topic=timeline.topic)
        while not self._signals.stop.is_set():
            self._live()
            asked = time.monotonic()
            try:
                if create:
                    buckets = timeline.buckets  # reading the settings stores them if there are none
                    facts = {"happening": "topic-made", "topic": timeline.topic}
                    logger.debug("the topic has %d buckets", buckets, extra=facts)
                if not timeline.exists():
                    raise NoTopicError(timeline.topic, timeline.where)
                return
            except TimelineUnavailableError as error:
                if fail_fast or is_misaddressed(error):
                    raise
                outage.began(error, asked, "waiting for Redis: %s", error)
                self._signals.stop.wait(STEP)

    def watch(self) -> None:
        """Wait until it is to stop, or has ended."""
        worker = self._worker
        while not self._signals.stop.is_set() and worker.life is Life.RUNNING:
            if not worker.trouble():
                self._live()
            self._signals.stop.wait(min(STEP, self._interval or STEP))

    def _live(self) -> None:
        now = time.monotonic()
        if self._interval is not None and now >= self._next_word:
            self._notifier.send(WATCHDOG)
            self._next_word = now + self._interval


def stop_with_parent(signals: Signals) -> None:
    """Drain when standard input ends: the parent process asks for it, or is gone."""

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1):  # not by sys.stdin, whose lock would block an exit
                pass
        signals.ask()

    threading.Thread(target=watch, name="worker-parent", daemon=True).start()
