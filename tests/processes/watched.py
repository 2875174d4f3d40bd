"""One process that shows all that a process can show, and that may make trouble.

`python -m tests.processes.watched '{"url": ..., ...}'` prints its port when it has begun. A line
on its standard input ends the trouble; the end of that input ends the process.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    Learned,
    Operation,
    Throttled,
    Watcher,
    settle,
)
from dispatcher.builders import EventTimeBuilder, SubjectBuilder
from dispatcher.metrics import instrument, serve
from dispatcher.registration import MemoryEntityStore, RegistrationGate
from limiters import InFlight, Limits, Rate, RedisLeaseManager, SharedResource

CAPACITY = 400.0


@dataclass(frozen=True)
class Plan:
    """The settings of the process."""

    url: str
    limit: str
    trouble: str = ""
    """refused: by the datastore, or else its callbacks raise; greedy: it asks for the whole
    limit and spends nothing; hung: its limit has several dimensions, and calls do not end."""


CONTRACT = Limits(
    requests=Rate(CAPACITY, also=[Rate(CAPACITY / 4, per=0.1)]),
    tokens=Rate(100 * CAPACITY),
    calls=InFlight(2),
)


class Watched:
    """A Batcher with more work than its limit allows, one without a limit, a gate, and builders."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.mended = threading.Event()
        self.is_hung = plan.trouble == "hung"
        self.limiter = SharedResource(
            shared_capacity=CONTRACT if self.is_hung else CAPACITY,
            parts=20,
            max_interval=0.2,
            lease_manager=RedisLeaseManager(plan.url, name=plan.limit, lease_time=1.0),
        )
        self.batcher = Batcher(rate_limiter=self.limiter, max_buffer_size=200)
        call = {"requests": 1, "calls": 1} if self.is_hung else 0
        self.watcher = Watcher(self.write, max_batch_size=5, batch_cost=call)
        self.alone = Batcher()
        self.alone_watcher = Watcher(self.write_alone)
        self.alone_cost = Learned(1)
        self.gate = RegistrationGate(MemoryEntityStore())
        self.by_time = EventTimeBuilder[Any](5, 5, key="type", event_time="at")
        self.by_subject = SubjectBuilder[Any](10, subject="meter", event_time="at")
        self.turn = 0

    def write(self, batch: list[Operation]) -> None:
        time.sleep(0.002)  # the datastore's
        if self.is_hung:
            self.mended.wait()
        estimated = sum(one.cost for one in batch)
        settle(batch, {"tokens": 2 * len(batch)} if self.is_hung else estimated)
        if self.plan.trouble == "refused" and not self.mended.is_set():
            settle(batch, estimated / 2)
            self.turn += 1
            if self.turn % 3 == 0:
                raise Throttled(retry_after=0.05)
            if self.turn % 3 == 1:
                raise ValueError("the datastore is out of order")

    def write_alone(self, batch: list[Operation]) -> None:
        settle(batch, 1)
        if self.plan.trouble == "refused" and not self.mended.is_set():
            settle(batch, 100)  # so that it is seen in the sum of all of that name
            raise ValueError("the datastore is out of order")

    def feed(self) -> None:
        try:
            while True:
                cost = {"tokens": 2} if self.is_hung else 2
                some = [Operation(self.watcher, cost, None, batchable=True) for _ in range(50)]
                self.batcher.enqueue_many(some)
        except BatcherStoppedError:
            return

    def build(self) -> None:
        number = 0
        while True:
            number += 1
            at = time.time()
            self.gate.offer(f"meter-{number}", "21.5")
            self.gate.register(f"meter-{number - 3}")
            self.by_time.add({"type": number % 2, "at": at}, at)
            self.by_subject.add({"meter": number, "at": at})
            self.alone.enqueue(Operation(self.alone_watcher, self.alone_cost, None))
            if number % 50 == 0:
                self.by_subject.build()
            time.sleep(0.1)

    def run(self) -> None:
        for name, one in (
            ("orders", self.batcher),
            ("alone", self.alone),
            ("meters", self.gate),
            ("by-time", self.by_time),
            ("by-subject", self.by_subject),
            ("alone", self.alone_cost),
        ):
            instrument(one, name=name)
        if self.plan.trouble == "greedy":
            self.limiter.start()
            self.limiter.give_me(CAPACITY)
        else:
            self.batcher.start()
            threading.Thread(target=self.feed, daemon=True).start()
        self.alone.start()
        threading.Thread(target=self.build, daemon=True).start()
        with serve(0) as server:
            sys.stdout.write(f"{server.port}\n")
            sys.stdout.flush()
            for _ in sys.stdin:
                self.mended.set()
                self.limiter.give_me(0) if self.plan.trouble == "greedy" else None
        self.batcher.stop(drain=False)
        self.alone.stop(drain=False)
        self.limiter.stop()


if __name__ == "__main__":
    Watched(Plan(**json.loads(sys.argv[1]))).run()
