"""The demo: one limited datastore and two jobs, first without a Batcher, then with one."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from dispatcher import (
    Batcher,
    BatcherStoppedError,
    Operation,
    ProvisionedResource,
    Throttled,
    Watcher,
)
from dispatcher.cli.datastore import Datastore, TooManyRequestsError

COST = 10
BATCH = 100
JOBS = 2
WRITERS = 8
"""How many requests a job without a Batcher sends at once."""


@dataclass
class Outcome:
    """How one half of the demo went."""

    title: str
    datastore: Datastore
    seconds: float
    ideal: float


def run(*, capacity: float, seconds: float) -> None:
    """Runs both halves, with progress, and draws the comparison."""
    if capacity < BATCH * COST:
        raise ValueError(f"capacity must be at least {BATCH * COST}, the cost of one batch")
    console = Console()
    batches = max(1, round(capacity * seconds / COST / BATCH / JOBS))
    records = batches * BATCH
    console.print(
        f"\n[bold]{JOBS} jobs[/] of {records:,} records, {COST} request units each, for a "
        f"datastore that allows [bold]{capacity:,.0f} a second[/]: "
        f"{JOBS * records * COST / capacity:.1f} s of work at best.\n"
    )
    halves = [("on their own", _alone), ("through a Batcher", _together)]
    outcomes = [_half(console, title, work, Datastore(capacity), records) for title, work in halves]
    _draw(console, outcomes)


Work = Callable[[Datastore, int, threading.Event], None]


def _half(console: Console, title: str, work: Work, datastore: Datastore, records: int) -> Outcome:
    total = JOBS * records
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(),
        TaskProgressColumn(),
        MofNCompleteColumn(),
        TextColumn("[red]{task.fields[refused]} refused (429)"),
    )
    stop = threading.Event()
    started = time.monotonic()
    worker = threading.Thread(target=work, args=(datastore, records, stop), daemon=True)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(title, total=total, refused=0)
        worker.start()
        try:
            while worker.is_alive():
                worker.join(0.05)
                progress.update(task, completed=datastore.written, refused=datastore.refused)
        finally:
            stop.set()
            worker.join()
    elapsed = time.monotonic() - started
    return Outcome(title, datastore, elapsed, total * COST / datastore.capacity)


def _alone(datastore: Datastore, records: int, stop: threading.Event) -> None:
    """What one writes without thinking of a limit: many writers, back-off, try again."""

    def write(_: int) -> None:
        for attempt in range(1_000_000):
            if stop.is_set():
                return
            try:
                datastore.write(BATCH, BATCH * COST)
                return
            except TooManyRequestsError:
                stop.wait(random.uniform(0, min(0.5, 0.02 * 2**attempt)))

    with ThreadPoolExecutor(JOBS * WRITERS) as pool:
        list(pool.map(write, range(JOBS * records // BATCH)))


def _together(datastore: Datastore, records: int, stop: threading.Event) -> None:
    """The same through one Batcher."""

    def on_batch(batch: list[Operation]) -> None:
        try:
            datastore.write(len(batch), sum(operation.cost for operation in batch))
        except TooManyRequestsError:
            raise Throttled from None

    watchers = [Watcher(on_batch, max_batch_size=BATCH) for _ in range(JOBS)]
    with Batcher(rate_limiter=ProvisionedResource(datastore.capacity)) as batcher:
        jobs = [
            threading.Thread(target=_job, args=(batcher, watcher, records), daemon=True)
            for watcher in watchers
        ]
        for job in jobs:
            job.start()
        while not stop.is_set() and any(job.is_alive() for job in jobs):
            jobs[0].join(0.05)
            jobs[-1].join(0.05)
        while not stop.is_set() and not all(watcher.wait(0.05) for watcher in watchers):
            pass
        batcher.stop(drain=not stop.is_set())


def _job(batcher: Batcher, watcher: Watcher, records: int) -> None:
    with contextlib.suppress(BatcherStoppedError):
        for _ in range(records // BATCH):
            batcher.enqueue_many(
                [Operation(watcher, COST, None, batchable=True) for _ in range(BATCH)]
            )


def _draw(console: Console, outcomes: list[Outcome]) -> None:
    table = Table(title="\nOne datastore, two jobs")
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
