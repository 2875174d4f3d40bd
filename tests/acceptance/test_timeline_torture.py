"""Real processes on one timeline, killed, stopped and cut off at random; every grant is judged."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dispatcher.timeline import Consumer, Timeline
from limiters.embedded import EmbeddedRedis
from tests.processes import ROOT
from tests.processes.noted import lines
from tests.processes.timeline_worker import LEASE_TIME
from tests.samples import sample
from tests.servers.proxy import Proxy
from tests.waiting import until

SECONDS, PATIENCE = 5.0, 60.0
LEASE_MS = round(LEASE_TIME * 1000)


class Worker:
    """A process, and how it is treated."""

    def __init__(self, **told: Any) -> None:
        self.told = told
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.timeline_worker", json.dumps(told)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.communicate(timeout=20)


@pytest.fixture
def server() -> Iterator[EmbeddedRedis]:
    with EmbeddedRedis() as made:
        yield made


@pytest.mark.parametrize("taken", [False, True])
def test_t3_a_stopped_consumer_that_wakes_after_its_lease_gets_an_error(
    server: EmbeddedRedis, taken: bool
) -> None:
    timeline = Timeline(server.url, "torture")
    timeline.producer("us").create([message()])
    worker = Worker(role="hold", url=server.url, name="sleeper")
    try:
        assert worker.hear() == "leased"
        worker.process.send_signal(signal.SIGSTOP)
        until(lambda: timeline.stats().lost == 1)
        other = timeline.consumer("other")
        if taken:
            until(lambda: other.lease(1, for_=60))
        worker.process.send_signal(signal.SIGCONT)
        assert worker.process.stdin is not None
        worker.process.stdin.write("go on\n")
        worker.process.stdin.flush()
        outcome = "LeaseLost" if taken else "LeaseExpired"
        assert worker.hear() == f"{outcome} {outcome} {outcome} True"
    finally:
        worker.end()


def message() -> Any:
    from dispatcher.timeline import Message

    return Message("x")


@pytest.mark.parametrize("seed", sample([1, 2], every=2))
def test_t3_t7_nothing_doubled_and_nothing_lost(
    server: EmbeddedRedis, tmp_path: Path, seed: int
) -> None:
    dice = random.Random(seed)
    log = tmp_path / "log"
    with Proxy(server) as proxy:
        told: dict[str, Any] = {"log": str(log)}
        urls = [server.url, proxy.url]
        workers = [
            Worker(role="produce", name=f"p{n}", url=urls[n % 2], seed=seed + n, **told)
            for n in range(2)
        ] + [
            Worker(role="consume", name=f"c{n}", url=urls[n % 2], seed=seed + 9 + n, **told)
            for n in range(3)
        ]
        try:
            for worker in workers:
                assert worker.hear() == "ready"
            trouble(workers, proxy, dice, lambda: has_done_something(log))
        finally:
            for worker in workers:
                worker.end()
    timeline = Timeline(server.url, "torture")
    stats = timeline.stats()
    assert stats.created == stats.deleted + stats.dead + stats.remaining
    rest = drained(timeline, timeline.consumer("last"))
    stats = timeline.stats()
    assert (stats.remaining, stats.created) == (0, stats.deleted + stats.dead)
    notes = [json.loads(line) for line in lines(log)]
    judge(notes, rest, {it.id for it in all_dead(timeline)})


def has_done_something(log: Path) -> bool:
    """Whether some messages were taken, and deleted; on a slow machine that takes longer."""
    said = [json.loads(line).get("said") for line in lines(log)]
    return said.count("Deleted") > 100


def trouble(
    workers: list[Worker], proxy: Proxy, dice: random.Random, enough: Callable[[], bool]
) -> None:
    """For some seconds, or longer if that is not enough, one thing after the other."""
    stopped: dict[int, float] = {}
    until, at_last = time.monotonic() + SECONDS, time.monotonic() + PATIENCE
    while time.monotonic() < until or not enough():
        assert time.monotonic() < at_last
        now = time.monotonic()
        for index in [index for index, end in stopped.items() if end <= now]:
            del stopped[index]
            workers[index].process.send_signal(signal.SIGCONT)
        what = dice.choice(["kill", "stop", "stop", "lose", "lose", "lose", "cut"])
        index = dice.randrange(len(workers))
        if what == "kill":
            stopped.pop(index, None)
            workers[index].end()
            workers[index] = Worker(**{**workers[index].told, "seed": dice.random()})
        elif what == "stop" and index not in stopped:
            workers[index].process.send_signal(signal.SIGSTOP)
            stopped[index] = now + LEASE_TIME * dice.choice([0.5, 1.2, 2])
        elif what == "lose":
            proxy.lose_next_reply("EVALSHA")
        else:
            proxy.cut()
        time.sleep(dice.uniform(0.02, 0.2))  # the trouble itself is by the clock


def drained(timeline: Timeline, consumer: Consumer) -> set[str]:
    """Delete what was left. Return it."""
    rest: set[str] = set()

    def step() -> bool:
        leases = consumer.lease(100, for_=30)
        rest.update(lease.id for lease in leases)
        assert all(outcome.ok for outcome in consumer.delete(leases))
        return timeline.stats().remaining == 0

    until(step)
    return rest


def all_dead(timeline: Timeline) -> list[Any]:
    found, cursor = timeline.dead(10_000)
    assert cursor == ""
    return found


def judge(notes: list[dict[str, Any]], rest: set[str], dead: set[str]) -> None:
    """Whether the notes agree with the laws."""
    by_id: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for note in notes:
        if "id" in note:
            by_id[note["id"]].append(note)
    for name, mine in by_id.items():
        grants = sorted((it for it in mine if it["what"] == "granted"), key=lambda it: it["token"])
        assert len({it["token"] for it in grants}) == len(grants)
        for earlier, later in pairwise(grants):
            between = [it for it in mine if earlier["token"] <= it["token"] < later["token"]]
            if any(it["what"] == "releasing" for it in between):
                continue
            # Returned again, or extended: all of them are one lease.
            ends = max(
                it["until"]
                for it in between
                if it.get("said", "Extended") == "Extended" and "until" in it
            )
            assert later["until"] - LEASE_MS >= ends, f"{name}: two live leases: {mine}"
        tokens = [it["token"] for it in mine if it["what"] in ("granted", "again")]
        deleted = [it for it in mine if it["what"] == "delete" and it["said"] == "Deleted"]
        assert len(deleted) <= 1, f"{name}: deleted twice: {mine}"
        assert all(it["token"] == max(tokens) for it in deleted), f"{name}: by a lost lease: {mine}"
        for it in mine:
            if it.get("lived"):
                assert it["said"] != "LeaseExpired", f"{name}: a holder thought it lived: {it}"
        assert not (deleted and name in rest), f"{name}: came back: {mine}"
    created = {name for note in notes if note["what"] == "created" for name in note["ids"]}
    ended = {it["id"] for it in notes if it["what"] == "deleting"} | rest | dead
    assert created <= ended, f"lost: {created - ended}"
