"""One process of a cluster: Batchers with work, that note when each of their batches begins.

`python -m tests.processes.instance '{"url": ..., ...}'`; plan.py lists its commands. It
prints "ready", does its work, and stops gracefully when a line comes in or its input ends.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from dispatcher import Batcher, BatcherStoppedError, Operation, Watcher
from limiters import RedisLeaseManager, SharedResource
from limiters._support.clock import MonotonicClock
from tests.processes.plan import Plan
from tests.starts import began


class Instance:
    """A Batcher and its limiter, with work, and the notes about it."""

    def __init__(self, plan: Plan, name: str, log: int) -> None:
        self.plan = plan
        self.name = name
        self.log = log
        self.limiter = SharedResource(
            shared_capacity=plan.shared_capacity,
            reserved_capacity=plan.reserved_capacity,
            factor=plan.factor,
            period=plan.period,
            max_interval=plan.max_interval,
            lease_manager=RedisLeaseManager(plan.url, name=plan.limit, lease_time=plan.lease_time),
        )
        self.batcher = Batcher(rate_limiter=self.limiter)
        self.watcher = Watcher(self.note, max_batch_size=plan.batch)
        self.feeder = threading.Thread(target=self.feed, daemon=True)

    def note(self, batch: list[Operation]) -> None:
        cost = sum(operation.cost for operation in batch)
        os.write(self.log, f"{began()!r}\t{self.name}\t{cost!r}\n".encode())

    def start(self) -> None:
        self.batcher.start()
        self.feeder.start()

    def feed(self) -> None:
        plan = self.plan
        time.sleep(max(0.0, plan.begin_at - MonotonicClock().now()))
        left = plan.operations
        try:
            while left is None or left > 0:
                some = 1_000 if left is None else min(1_000, left)
                if plan.rate:
                    time.sleep(1 / plan.rate)
                    some = 1
                self.batcher.enqueue_many(
                    [
                        Operation(self.watcher, plan.cost, None, batchable=plan.batch > 1)
                        for _ in range(some)
                    ]
                )
                left = None if left is None else left - some
        except BatcherStoppedError:
            return

    def stop(self) -> None:
        self.batcher.stop(drain=False)


class Runnable(Protocol):
    """An instance of any program of a cluster."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


def run(instances: Sequence[Runnable]) -> None:
    """Starts them, says so, and stops them when a line comes in or the input ends."""
    for instance in instances:
        instance.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for instance in instances:
        instance.stop()


def main() -> None:
    plan = Plan.from_argument()
    log = os.open(plan.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    run([Instance(plan, name, log) for name in plan.names])


if __name__ == "__main__":
    main()
