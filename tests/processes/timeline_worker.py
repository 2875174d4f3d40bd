"""One process that produces to or consumes from a timeline, and notes all answers.

`python -m tests.processes.timeline_worker '{"role": ..., "url": ..., ...}'`. Notes are lines of
JSON, appended to a file in one piece each. What is about to be done that ends a lease is noted
before, so that a process killed in between leaves no doubt. It ends when its input does.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from typing import Any

from dispatcher.timeline import Lease, Message, Timeline, TimelineUnavailableError

LEASE_TIME = 0.4


class Worker:
    """The topic that producers and consumers share."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.name = told["name"]
        self.timeline = Timeline(
            told["url"], "torture", max_attempts=6, remember_deleted=60, timeout=0.5
        )
        self.log = os.open(told["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.random = random.Random(told["seed"])
        self.ended = threading.Event()

    def note(self, what: str, **facts: Any) -> None:
        """Append one line to the notes."""
        line = {"what": what, "who": self.name, "pid": os.getpid(), **facts}
        os.write(self.log, json.dumps(line).encode() + b"\n")

    def produce(self) -> None:
        """Creates messages, again and again until it is answered for them."""
        producer = self.timeline.producer("us")
        while not self.ended.is_set():
            messages = [
                Message("x" * 50, delay=self.random.choice([0, 0, 0.05, 0.3])) for _ in range(10)
            ]
            while not self.ended.is_set():
                try:
                    outcomes = producer.create(messages)
                except TimelineUnavailableError:
                    self.ended.wait(0.01)
                    continue
                names = [it.id for it in outcomes if type(it).__name__ in ("Created", "Duplicate")]
                self.note("created", ids=names)
                if len(names) == len(messages):
                    break
            self.ended.wait(0.01)

    def consume(self) -> None:
        """Leases, and deletes, releases, extends or forgets."""
        consumer = self.timeline.consumer(self.name)
        while True:
            try:
                self.granted(consumer.active(), again=True)
                break
            except TimelineUnavailableError:
                self.ended.wait(0.01)
        while not self.ended.is_set():
            try:
                leases = consumer.lease(self.random.choice([1, 5, 20]), for_=LEASE_TIME)
                self.granted(leases)
                self.handle(consumer, leases)
                if not leases:
                    self.ended.wait(0.01)
            except TimelineUnavailableError:
                self.ended.wait(0.01)

    def granted(self, leases: list[Lease], *, again: bool = False) -> None:
        for it in leases:
            facts = {"id": it.id, "token": it.token, "until": it.until, "attempt": it.attempt}
            self.note("again" if again else "granted", **facts)

    def handle(self, consumer: Any, leases: list[Lease]) -> None:
        for lease in leases:
            choice = self.random.random()
            if choice < 0.05:
                continue
            facts = {"id": lease.id, "token": lease.token}
            if choice < 0.15:
                [outcome] = consumer.extend(lease, LEASE_TIME)
                self.note("extend", **facts, said=type(outcome).__name__, until=lease.until)
            elif choice < 0.3:
                self.note("releasing", **facts)
                [outcome] = consumer.release(lease, delay=self.random.choice([0, 0.1]))
                self.note("release", **facts, said=type(outcome).__name__)
                continue
            self.note("deleting", **facts)
            [outcome] = consumer.delete(lease)
            lived = not lease.is_expired()  # still, when it was answered: on the safe side
            self.note("delete", **facts, said=type(outcome).__name__, lived=lived)


def hold_and_wake(told: dict[str, Any]) -> None:
    """Leases one, says so, waits for a line (and is stopped meanwhile), then uses the lease."""
    consumer = Timeline(told["url"], "torture").consumer(told["name"])
    [lease] = consumer.lease(1, for_=LEASE_TIME)
    sys.stdout.write("leased\n")
    sys.stdout.flush()
    sys.stdin.readline()
    outcomes = [*consumer.extend(lease, 5), *consumer.release(lease), *consumer.delete(lease)]
    sys.stdout.write(" ".join(type(it).__name__ for it in outcomes) + f" {lease.is_expired()}\n")
    sys.stdout.flush()


def main() -> None:
    told = json.loads(sys.argv[1])
    if told["role"] == "hold":
        hold_and_wake(told)
        return
    worker = Worker(told)
    threading.Thread(target=getattr(worker, told["role"]), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    worker.ended.set()


if __name__ == "__main__":
    main()
