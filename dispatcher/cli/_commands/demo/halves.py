"""The demo: four processes and one datastore, first on their own, then with a shared limit."""

from __future__ import annotations

import subprocess
import sys
import time
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
from dispatcher.cli._commands.demo.process import BATCH, COST, LEASE, LIMIT, PARTITIONS, DemoPlan
from dispatcher.cli._commands.demo.summary import DemoOutcome, draw
from dispatcher.cli._commands.demo.watcher import LeaseWatcher
from dispatcher.cli._signals import Endings
from dispatcher.cli.datastore import Datastore
from dispatcher.report import ReportFile, Run
from limiters import RedisLeaseManager
from limiters._support.validation import UNSHOWN, ArgumentError
from limiters.embedded import EmbeddedRedis
from limiters.errors import LimiterError

JOBS, PROCESSES = 2, 4
PERIOD = 1.0
WIDE = 60
"""Columns of a terminal that has room for all that is said of progress."""


def run(*, capacity: float, seconds: float, report: str | None = None) -> None:
    """Runs both halves, with progress, and draws the comparison; and a page, into `report`."""
    if capacity < 2 * BATCH * COST:
        least = f"be at least {2 * BATCH * COST}, the cost of two batches"
        raise ArgumentError("capacity", UNSHOWN, least)
    file = None if report is None else ReportFile(report)
    console = Console()
    with Endings("everything was stopped") as endings:
        with endings.wholly_closed(EmbeddedRedis()) as redis:
            outcomes = _both_halves(console, capacity, seconds, redis.url)
        draw(console, outcomes)
        if file is not None:
            file.write([_run(outcome) for outcome in outcomes])
            console.print(f"\nThe picture, for a browser: {file.path.resolve()}", soft_wrap=True)
        else:
            console.print("\nA picture, for a browser: [bold]dispatcher demo --report demo.html[/]")
        console.print(
            "Next: the README's first program; in a copy of the project, [bold]make test[/].\n"
        )


def _both_halves(
    console: Console, capacity: float, seconds: float, redis: str
) -> list[DemoOutcome]:
    records = BATCH * max(1, round(capacity * seconds / COST / BATCH / JOBS))
    plan = DemoPlan(0, capacity, records)
    with closing(RedisLeaseManager(redis, name=LIMIT, lease_time=LEASE)) as leases:
        console.print(
            f"\n[bold]{PROCESSES} processes, {JOBS} jobs[/] of {records:,} records, {COST} request "
            f"units each, for a datastore that allows [bold]{capacity:,.0f} a second[/]: "
            f"{JOBS * records * COST / capacity:.1f} s of work at best.\n"
        )
        # Made now, so that by the second half it is certain that nobody holds anything.
        leases.set_terms(
            capacity=capacity, factor=capacity / PARTITIONS, period=PERIOD, lease_time=LEASE
        )
        view = leases.look()
        granting = time.monotonic() + (view.uncertain_ms / 1000 if view is not None else 0.0)
        first = _half(console, "on their own", plan, leases)
        time.sleep(max(0.0, granting - time.monotonic()))  # if the first one was short
        return [first, _half(console, "sharing the limit", replace(plan, redis=redis), leases)]


def _run(outcome: DemoOutcome) -> Run:
    datastore = outcome.datastore
    return Run(
        outcome.title,
        datastore.capacity,
        list(datastore.entries),
        holdings=outcome.leases.holdings,
        partitions=PARTITIONS,
        refused=list(datastore.refusals),
    )


def _half(console: Console, title: str, plan: DemoPlan, leases: RedisLeaseManager) -> DemoOutcome:
    total = JOBS * plan.records
    datastore = Datastore(plan.capacity)
    with ExitStack() as stack:
        server = stack.enter_context(DatastoreServer(datastore))
        processes = [
            stack.enter_context(
                _DemoProcess(
                    replace(plan, port=server.port, records=records, name=f"process-{number}")
                )
            )
            for number, records in enumerate([plan.records] * JOBS + [0] * (PROCESSES - JOBS), 1)
        ]
        for process in processes:
            process.hear("ready")
        watcher = LeaseWatcher(leases, {one.pid: one.name for one in processes})
        if plan.redis is not None:
            stack.enter_context(watcher)
        for process in processes:
            process.begin()
        started = time.monotonic()
        progress = stack.enter_context(Progress(*_columns(console), console=console))
        task = progress.add_task(title, total=total, refused=0)
        while datastore.written < total:
            time.sleep(0.05)
            if any(process.ended for process in processes):
                raise LimiterError("a process of the demo has ended in the middle; see above")
            progress.update(task, completed=datastore.written, refused=datastore.refused)
        elapsed = time.monotonic() - started
        progress.update(task, completed=datastore.written, refused=datastore.refused)
    return DemoOutcome(title, datastore, elapsed, total * COST / datastore.capacity, watcher)


def _columns(console: Console) -> list[ProgressColumn]:
    count = TextColumn("[red]{task.fields[refused]} refused (429)")
    rest = [TaskProgressColumn(), MofNCompleteColumn()] if console.width >= WIDE else []
    return [TextColumn("{task.description:<17}"), BarColumn(), *rest, count]


class _DemoProcess:
    """One process of the demo; it ends with its `with` block, or with us."""

    def __init__(self, plan: DemoPlan) -> None:
        self.name = plan.name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dispatcher.cli._commands.demo.process", plan.as_argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is ours to answer
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def hear(self, word: str) -> None:
        assert self._process.stdout is not None
        if self._process.stdout.readline() != f"{word}\n":
            raise LimiterError("a process of the demo could not be started; see above")

    def begin(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("begin\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()
