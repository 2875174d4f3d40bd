"""Worker processes on one timeline, one limit and one metered store, in all kinds of trouble.

LONG=1 does it with a hundred thousand messages.
"""

from __future__ import annotations

import math
import os
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from dispatcher.timeline import Message, Timeline
from examples.reminders.store import MeteredStore
from limiters.embedded import EmbeddedRedis
from limiters.verifier import verify
from tests.processes.workers import WorkerProcess, create_at_last, handled, notes
from tests.samples import sample
from tests.waiting import until

LONG = bool(os.environ.get("LONG"))
MESSAGES, RATE = (100_000, 10_000) if LONG else (6_000, 2_000)
LEASE, WORKERS, CONCURRENCY, BATCH = 1.0, 4, 4, 50
KILLS, STOPS, RESTARTS = 3, 6, 2
DRAINING = 300.0 if LONG else 60.0

OPTIONS = (
    *("--topic", "torture", "--limit", "store", "--factor", str(RATE // 20)),
    *("--shared-capacity", str(RATE), "--max-interval", "0.25", "--limit-lease-time", "1"),
    *("--lease-time", str(LEASE), "--max-batch-size", str(BATCH)),
    *("--concurrency", str(CONCURRENCY)),
    *("--flush-interval", "0.02", "--backoff", "0.05", "--max-backoff", "0.5"),
    *("--max-attempts", "100", "--max-operation-time", "20", "--drain-time", "10"),
)


class Workers:
    """The running workers, and how they are treated."""

    def __init__(self, server: EmbeddedRedis, store: MeteredStore, log: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.known = {"DISPATCHER_REDIS": server.url, "STORE": store.url, "LOG": str(log)}
        self.running = [self.start() for _ in range(WORKERS)]
        self.stopped_pids: set[int] = set()
        self._stopped: dict[int, float] = {}

    def start(self) -> WorkerProcess:
        offset = str(self.dice.choice([0, 3_600, -3_600, 1e6]))
        handler = "tests.processes.worker_handlers:send"
        return WorkerProcess(handler, *OPTIONS, CLOCK_OFFSET=offset, **self.known)

    def kill(self) -> None:
        index = self.dice.randrange(WORKERS)
        self._stopped.pop(index, None)
        self.running[index].end()
        self.running[index] = self.start()

    def stop(self) -> None:
        index = self.dice.randrange(WORKERS)
        if index not in self._stopped:
            worker = self.running[index]
            worker.signal(signal.SIGSTOP)
            self.stopped_pids.add(worker.process.pid)
            self._stopped[index] = time.monotonic() + LEASE * self.dice.choice([0.3, 1.5, 2.5])

    def wake(self, *, all_of_them: bool = False) -> None:
        for index, end in list(self._stopped.items()):
            if all_of_them or end <= time.monotonic():
                del self._stopped[index]
                self.running[index].signal(signal.SIGCONT)

    def drain(self) -> list[int]:
        for worker in self.running:
            worker.signal(signal.SIGTERM)
        return [worker.ended() for worker in self.running]

    def end(self) -> None:
        for worker in self.running:
            worker.end()


class Feeder(threading.Thread):
    """Creates messages, again and again until it is answered for them, as long as there is
    trouble, and enough of them."""

    def __init__(self, url: str, done: Callable[[], float]) -> None:
        super().__init__(daemon=True)
        self.timeline = Timeline(url, "torture", remember_deleted=600)
        self.created: set[str] = set()
        self.trouble_is_over = threading.Event()
        self._done = done

    def run(self) -> None:
        producer = self.timeline.producer("us")
        dice = random.Random(7)
        while len(self.created) < MESSAGES or not self.trouble_is_over.is_set():
            if len(self.created) - self._done() > 2 * RATE:
                time.sleep(0.02)
                continue
            messages = [Message("x" * 50, delay=dice.choice([0, 0, 0.5])) for _ in range(200)]
            self.created |= create_at_last(producer, messages)


def trouble(workers: Workers, server: EmbeddedRedis) -> None:
    """One thing after the other, in any order."""
    plan = ["kill"] * KILLS + ["stop"] * STOPS + ["restart"] * RESTARTS
    plan *= 10 if LONG else 1
    workers.dice.shuffle(plan)
    for what in plan:
        workers.wake()
        if what == "kill":
            workers.kill()
        elif what == "stop":
            workers.stop()
        else:
            server.restart(empty=False)
        time.sleep(workers.dice.uniform(0.05, 0.5))  # the trouble itself is by the clock
    workers.wake(all_of_them=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", sample([1, 2], every=2))
def test_t3_t7_c1_nothing_lost_nothing_doubled_nothing_refused(tmp_path: Path, seed: int) -> None:
    log = tmp_path / "log"
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedRedis(appendonly=True))
        # the most that may be in flight together.
        in_flight = (WORKERS + KILLS) * CONCURRENCY * BATCH
        store = stack.enter_context(MeteredStore(RATE + in_flight))
        feeder = Feeder(server.url, lambda: sum(cost for _, cost, _, _ in list(store.log)))
        stack.callback(feeder.timeline.close)
        assert feeder.timeline.buckets == 64
        workers = Workers(server, store, log, seed)
        stack.callback(workers.end)
        feeder.start()
        until(lambda: store.log)
        trouble(workers, server)
        feeder.trouble_is_over.set()
        feeder.join(DRAINING)
        until(lambda: feeder.timeline.stats().remaining == 0, within=DRAINING)
        assert workers.drain() == [0] * WORKERS
        stats = feeder.timeline.stats()
    assert len(feeder.created) >= MESSAGES
    assert feeder.created <= set(handled(log)), "each was handled at least once"
    assert (stats.dead, stats.remaining) == (0, 0)
    assert stats.deleted == stats.created == len(feeder.created)
    assert store.refused == 0
    verdict = verify(
        [(it["charged"], "a worker", len(it["messages"])) for it in notes(log) if "charged" in it],
        RATE,
    )
    assert verdict.holds, str(verdict)
    judge(log, workers.stopped_pids)


def judge(log: Path, stopped: set[int]) -> None:
    """Whether no message was in a handler under two leases that lived at a time.

    When a handler begins with a message, the call before has ended, or its lease has. A handler
    begins while its lease lives; only in a process that was stopped between the look at its lease
    and the first line of the handler may it be late, and then its lease is dead.
    """
    begun: dict[str, dict[int, tuple[float, float, int]]] = defaultdict(dict)
    ended: dict[tuple[str, int], tuple[float, float]] = {}
    for one in notes(log):
        for name, token, lease_end in one["messages"]:
            if one["what"] == "begin":
                assert token not in begun[name], f"{name} began twice under one lease"
                begun[name][token] = (one["at"], lease_end, one["pid"])
            elif one["what"] == "end":
                ended[name, token] = one["at"], lease_end
    twice = 0
    for name, calls in begun.items():
        for at, lease_end, pid in calls.values():
            assert at < lease_end or pid in stopped, f"{name} began after its lease: {calls}"
        for token, later in pairwise(sorted(calls)):
            twice += 1
            # At its end a call notes until when its lease was extended.
            end, lived = ended.get((name, token), (math.inf, 0.0))
            over = min(end, max(lived, calls[token][1]))
            at, lease_end, _ = calls[later]
            assert over <= at or at >= lease_end, f"{name}, two leases that lived: {calls}"
    assert twice, "there was trouble at all"
