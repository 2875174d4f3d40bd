"""The demo: four processes and one datastore, first on their own, then with a shared limit."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from dispatcher.cli.datastore import Datastore
from dispatcher.cli.datastore_server import DatastoreServer
from dispatcher.cli.demo_process import BATCH, COST, LEASE, LIMIT, PARTITIONS, Plan
from dispatcher.report import Run, page
from limiters import RedisLeaseManager
from limiters.embedded import EmbeddedRedis
from limiters.errors import LimiterError
from limiters.leases.messages import Terms

JOBS, PROCESSES = 2, 4


@dataclass
class Outcome:
    """How one half of the demo went."""

    title: str
    datastore: Datastore
    seconds: float
    ideal: float


def run(*, capacity: float, seconds: float, report: str | None = None) -> None:
    """Runs both halves, with progress, and draws the comparison; and a page, into `report`."""
    if capacity < 2 * BATCH * COST:
        raise ValueError(f"capacity must be at least {2 * BATCH * COST}, the cost of two batches")
    console = Console()
    records = BATCH * max(1, round(capacity * seconds / COST / BATCH / JOBS))
    console.print(
        f"\n[bold]{PROCESSES} processes, {JOBS} jobs[/] of {records:,} records, {COST} request "
        f"units each, for a datastore that allows [bold]{capacity:,.0f} a second[/]: "
        f"{JOBS * records * COST / capacity:.1f} s of work at best.\n"
    )
    with EmbeddedRedis() as redis:
        # Made now, so that by the second half it is certain that nobody holds anything.
        leases = RedisLeaseManager(redis.url, name=LIMIT, lease_time=LEASE)
        leases.set_capacity(Terms(capacity, capacity / PARTITIONS, 1000, int(LEASE * 1000)))
        leases.close()
        outcomes = [
            _half(console, "on their own", Plan(0, capacity, records)),
            _half(console, "sharing the limit", Plan(0, capacity, records, redis.url)),
        ]
    _draw(console, outcomes)
    if report is not None:
        runs = [Run(one.title, one.datastore.capacity, one.datastore.entries) for one in outcomes]
        Path(report).write_text(page(runs), "utf-8")
        console.print(f"Look at it in a browser: {report}\n")


def _half(console: Console, title: str, plan: Plan) -> Outcome:
    total = JOBS * plan.records
    datastore = Datastore(plan.capacity)
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("[red]{task.fields[refused]} refused (429)"),
    )
    with ExitStack() as closing:
        server = closing.enter_context(DatastoreServer(datastore))
        processes = [
            closing.enter_context(_Process(replace(plan, port=server.port, records=records)))
            for records in [plan.records] * JOBS + [0] * (PROCESSES - JOBS)
        ]
        for process in processes:
            process.hear("ready")
        for process in processes:
            process.begin()
        started = time.monotonic()
        progress = closing.enter_context(Progress(*columns, console=console))
        task = progress.add_task(title, total=total, refused=0)
        while datastore.written < total:
            time.sleep(0.05)
            if any(process.ended for process in processes):
                raise LimiterError("a process of the demo has ended in the middle; see above")
            progress.update(task, completed=datastore.written, refused=datastore.refused)
        elapsed = time.monotonic() - started
        progress.update(task, completed=datastore.written, refused=datastore.refused)
    return Outcome(title, datastore, elapsed, total * COST / datastore.capacity)


class _Process:
    """One process of the demo; it ends with its `with` block, or with us."""

    def __init__(self, plan: Plan) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dispatcher.cli.demo_process", plan.as_argument()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is ours to answer
        )

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


def _draw(console: Console, outcomes: list[Outcome]) -> None:
    table = Table(title="\nOne datastore, four processes, two jobs")
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.title, justify="right")
    rows: list[tuple[str, Callable[[Outcome], str]]] = [
        ("refused with 429", lambda one: f"{one.datastore.refused:,}"),
        ("requests for one that is written", _requests_per_write),
        ("largest burst, against an even flow", _largest_burst),
        ("time, against work / capacity", _time),
        ("worst second, of the capacity", lambda one: f"{one.datastore.worst_window():.3f}"),
    ]
    for label, cell in rows:
        table.add_row(label, *(cell(outcome) for outcome in outcomes))
    console.print(table)
    console.print("\nUse of the capacity, each mark 0.1 s; a full mark is an even flow or more:")
    for outcome in outcomes:
        console.print(
            f"\n  {outcome.title}\n  {_sparkline(outcome.datastore.use())}", soft_wrap=True
        )
    console.print(
        "\nNext: the README's first program, and [bold]make test[/]. "
        "[dim]dispatcher demo --help[/] has options.\n"
    )


def _largest_burst(outcome: Outcome) -> str:
    return f"{max(outcome.datastore.use(), default=0):.1f} x"


def _time(outcome: Outcome) -> str:
    return f"{outcome.seconds:.1f} s = {outcome.seconds / outcome.ideal:.2f}"


def _requests_per_write(outcome: Outcome) -> str:
    writes = max(1, outcome.datastore.written // BATCH)
    return f"{(writes + outcome.datastore.refused) / writes:.2f}"


def _sparkline(shares: list[float]) -> str:
    marks = " ▁▂▃▄▅▆▇█"
    return "".join(marks[min(8, max(0, round(share * 8)))] for share in shares)
