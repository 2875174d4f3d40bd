"""The demo's summary: both halves side by side, and how evenly each used the capacity."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from dispatcher.cli._commands.demo.process import BATCH
from dispatcher.cli._commands.demo.watcher import LeaseWatcher
from dispatcher.cli.datastore import Datastore

SLICE = 0.1
MARKS = " ▁▂▃▄▅▆▇█"
INDENT = "  "


@dataclass
class DemoOutcome:
    """How one half of the demo went."""

    title: str
    datastore: Datastore
    seconds: float
    ideal: float
    leases: LeaseWatcher


def draw(console: Console, outcomes: list[DemoOutcome]) -> None:
    """Prints it."""
    ideal = outcomes[0].ideal
    table = Table(title="\nOne datastore, four processes, two jobs")
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.title, justify="right")
    rows: list[tuple[str, Callable[[DemoOutcome], str]]] = [
        ("refused with 429", lambda one: f"{one.datastore.refused:,}"),
        ("requests for one that is written", _requests_per_write),
        ("largest burst, against an even flow", _largest_burst),
        ("used capacity, of whole seconds", _used),
        (f"time, against the ideal of {ideal:.1f} s", _time),
        ("worst second, of the capacity", lambda one: f"{one.datastore.worst_window():.3f}"),
    ]
    for label, cell in rows:
        table.add_row(label, *(cell(outcome) for outcome in outcomes))
    console.print(table)
    said = "\nThe ideal is work / capacity."
    if any(outcome.seconds < ideal for outcome in outcomes):
        said += " Less is possible: the first second's worth may go at once."
    console.print(said)
    if outcomes[-1].datastore.refused:
        console.print(
            "The machine was so busy that some requests arrived later than they were sent."
        )
    width = max(10, console.width - len(INDENT))
    slice_ = SLICE * math.ceil(max(len(one.datastore.use(SLICE)) for one in outcomes) / width)
    console.print(
        f"Use of the capacity, each mark {slice_:.1f} s; a full mark is an even flow or more:"
    )
    for outcome in outcomes:
        marks = _marks(outcome.datastore.use(slice_))
        console.print(f"\n{INDENT}{outcome.title}\n{INDENT}{marks}")


def _largest_burst(outcome: DemoOutcome) -> str:
    return f"{max(outcome.datastore.use(SLICE), default=0):.1f} x"


def _used(outcome: DemoOutcome) -> str:
    used = outcome.datastore.used()
    return "-" if used is None else f"{used:.3f}"


def _time(outcome: DemoOutcome) -> str:
    return f"{outcome.seconds:.1f} s = {outcome.seconds / outcome.ideal:.2f}"


def _requests_per_write(outcome: DemoOutcome) -> str:
    writes = max(1, outcome.datastore.written // BATCH)
    return f"{(writes + outcome.datastore.refused) / writes:.2f}"


def _marks(shares: list[float]) -> str:
    return "".join(MARKS[min(8, max(0, round(share * 8)))] for share in shares)
