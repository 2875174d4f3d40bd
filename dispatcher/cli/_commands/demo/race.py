"""The demo: one job, done in three ways at the same time, each with a datastore of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
)

from dispatcher.cli._commands.demo.datastore_server import DatastoreServer
from dispatcher.cli._commands.demo.outcome import DemoOutcome
from dispatcher.cli._commands.demo.process import (
    BATCH,
    COST,
    LEASE,
    LIMIT,
    PARTITIONS,
    PERIOD,
    DemoPlan,
)
from dispatcher.cli._commands.demo.summary import draw, remarks, runs
from dispatcher.cli._commands.demo.watcher import LeaseWatcher
from dispatcher.cli._signals import Endings
from dispatcher.cli.datastore import Datastore
from dispatcher.report import ReportFile
from limiters import RedisLeaseManager
from limiters._support.validation import UNSHOWN, ArgumentError
from limiters.embedded import EmbeddedRedis
from limiters.errors import LeaseManagerError, LimiterError

SHARES = {"process-1": 0.3, "process-2": 0.3, "process-3": 0.2, "process-4": 0.2}
"""The share of the records of each process."""
KILLED, HEIR = "process-2", "process-3"
HANDOVER = 0.5
"""Seconds after which the rest of a killed process is given to another one."""
PATIENCE = 10.0
"""Seconds for one reading of the limit, on a machine that starts a dozen processes meanwhile."""
WIDE = 60
"""Columns of a terminal with room for a complete progress line."""


def run(*, capacity: float, seconds: float, report: str | None = None) -> None:
    """Run all three ways, with progress, print a comparison, and write `report`."""
    if capacity < 2 * BATCH * COST:
        least = f"be at least {2 * BATCH * COST}, the cost of two batches"
        raise ArgumentError("capacity", UNSHOWN, least)
    file = None if report is None else ReportFile(report)
    console = Console()
    with Endings("everything was stopped") as endings:
        with endings.wholly_closed(EmbeddedRedis()) as redis:
            jobs = _jobs(capacity, seconds)
            best = Datastore(capacity).seconds_at_best(sum(jobs.values()), COST)
            text = _introduction(jobs, capacity, best)
            with closing(_limit(redis.url, capacity)) as leases:
                console.print(f"\n{text}\n")
                outcomes = _race(console, jobs, leases, seconds / 2, capacity, redis, endings)
        draw(console, outcomes)
        if file is not None:
            file.write(runs(outcomes), [text], remarks(outcomes))
            console.print(f"\nWith charts, for a browser: {file.path.resolve()}", soft_wrap=True)
        else:
            console.print(
                "\nWith charts, for a browser: [bold]dispatcher demo --report demo.html[/]"
            )
        console.print(
            "Next: the README's first program; in a copy of the project, [bold]make test[/].\n"
        )


def _jobs(capacity: float, seconds: float) -> dict[str, int]:
    """Return the number of records of each process."""
    batches = round(capacity * seconds / COST / BATCH)
    return {name: BATCH * max(1, round(share * batches)) for name, share in SHARES.items()}


def _introduction(jobs: Mapping[str, int], capacity: float, best: float) -> str:
    *some, last = (f"{records:,}" for records in jobs.values())
    return (
        f"{len(jobs)} processes write {', '.join(some)} and {last} records of {COST} request units "
        f"to a datastore that allows {capacity:,.0f} in any second, the first "
        f"{capacity:,.0f} immediately: {best:.1f} s of work at best. They do it in three "
        f"ways at the same time, each with a datastore of its own. {KILLED} is killed, and {HEIR} "
        "gets the rest of its records."
    )


def _limit(redis: str, capacity: float) -> RedisLeaseManager:
    """Create the limit before the processes start, since nothing is granted until it is certain
    that no lease is out."""
    leases = RedisLeaseManager(redis, name=LIMIT, lease_time=LEASE, timeout=PATIENCE)
    leases.set_terms(
        capacity=capacity, factor=capacity / PARTITIONS, period=PERIOD, lease_time=LEASE
    )
    return leases


def _race(
    console: Console,
    jobs: Mapping[str, int],
    leases: RedisLeaseManager,
    kill_after: float,
    capacity: float,
    redis: EmbeddedRedis,
    endings: Endings,
) -> list[DemoOutcome]:
    with endings.wholly_closed(ExitStack()) as stack:
        quarter, own = DemoPlan(capacity=capacity / len(jobs)), DemoPlan()
        shared = DemoPlan(capacity=capacity, redis=redis.url)
        ways = [
            _Way("a quarter each", jobs, capacity, quarter, quarters=True),
            _Way("on their own", jobs, capacity, own),
            _Way("sharing the limit", jobs, capacity, shared, leases),
        ]
        with endings.postponed():  # else a process that was just started might outlive the demo
            for way in ways:
                stack.enter_context(way)
        for way in ways:
            way.wait_until_ready()
        view = leases.look()
        time.sleep(view.uncertain_ms / 1000 if view is not None else 0.0)
        progress = stack.enter_context(Progress(*_columns(console), console=console))
        _run(progress, ways, kill_after, redis)
        return [way.outcome() for way in ways]


def _run(progress: Progress, ways: list[_Way], kill_after: float, redis: EmbeddedRedis) -> None:
    """Run until all is written in each way."""
    tasks = [progress.add_task(way.title, total=way.total, refused=0) for way in ways]
    began = time.monotonic()
    for way in ways:
        way.begin()
    steps = [
        (began + kill_after, _Way.kill, f"{KILLED} is killed"),
        (began + kill_after + HANDOVER, _Way.hand_over, f"{HEIR} gets the rest of {KILLED}"),
    ]
    while steps or not all(way.done for way in ways):
        time.sleep(0.05)
        if not redis.running:
            raise LeaseManagerError(
                "the Redis server of the demo has ended in the middle; run it again"
            )
        for way in ways:
            way.check()
        now = time.monotonic()
        if steps and now >= steps[0][0]:
            _, step, text = steps.pop(0)
            for way in ways:
                step(way)
            progress.console.print(f"{now - began:.1f} s: {text}")
        for way, task in zip(ways, tasks, strict=True):
            progress.update(task, completed=way.datastore.written, refused=way.datastore.refused)


def _columns(console: Console) -> list[ProgressColumn]:
    count = TextColumn("[red]{task.fields[refused]} refused (429)")
    rest = [TaskProgressColumn(), MofNCompleteColumn()] if console.width >= WIDE else []
    return [TextColumn("{task.description:<17}"), BarColumn(), *rest, count]


class _Way:
    """One way to keep the limit: a datastore, and the processes that write to it. They end with the
    `with` block."""

    def __init__(
        self,
        title: str,
        jobs: Mapping[str, int],
        capacity: float,
        plan: DemoPlan,
        leases: RedisLeaseManager | None = None,
        *,
        quarters: bool = False,
    ) -> None:
        self.title = title
        self.total = sum(jobs.values())
        self.datastore = Datastore(capacity)
        self._jobs = jobs
        self._plan = plan
        self._leases = leases
        self._quarters = quarters
        self._processes: dict[str, _DemoProcess] = {}
        self._watcher: LeaseWatcher | None = None
        self._began = self._killed = 0.0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            server = stack.enter_context(DatastoreServer(self.datastore))
            for name in self._jobs:
                plan = replace(self._plan, name=name, port=server.port)
                self._processes[name] = stack.enter_context(_DemoProcess(plan))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def wait_until_ready(self) -> None:
        for process in self._processes.values():
            process.wait_until_ready()

    def begin(self) -> None:
        if self._leases is not None:
            names = {process.pid: name for name, process in self._processes.items()}
            self._watcher = self._stack.enter_context(LeaseWatcher(self._leases, names))
        self._began = time.monotonic()
        for name, records in self._jobs.items():
            self._processes[name].write(records)

    def kill(self) -> None:
        self._processes.pop(KILLED).kill()
        self._killed = time.monotonic()

    def hand_over(self) -> None:
        written = sum(one.records or 0 for one in self.datastore.entries if one.instance == KILLED)
        self._processes[HEIR].write(self._jobs[KILLED] - written)

    @property
    def done(self) -> bool:
        return self.datastore.written >= self.total

    def check(self) -> None:
        if any(process.ended for process in self._processes.values()):
            raise LimiterError("a process of the demo has ended in the middle; see above")

    def outcome(self) -> DemoOutcome:
        return DemoOutcome(
            self.title,
            self.datastore,
            list(self._jobs),
            best=self.datastore.seconds_at_best(self.total, COST),
            began=self._began,
            killed_at=self._killed,
            killed=KILLED,
            quarters=self._quarters,
            holdings=self._watcher.holdings if self._watcher is not None else None,
        )


class _DemoProcess:
    """One process of the demo; it ends with its `with` block, or with the demo."""

    def __init__(self, plan: DemoPlan) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dispatcher.cli._commands.demo.process", plan.as_argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the demo alone
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait_until_ready(self) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise LimiterError("a process of the demo could not be started; see above")

    def write(self, records: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{records}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()
