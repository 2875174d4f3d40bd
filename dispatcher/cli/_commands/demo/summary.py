"""The demo's summary: the three ways next to each other, as a table and as charts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from dispatcher.cli._commands.demo.outcome import DemoOutcome
from dispatcher.cli._commands.demo.process import (
    FIRST_BACKOFF,
    INTERVAL,
    LAST_BACKOFF,
    LEASE,
    PARTITIONS,
    PERIOD,
)
from dispatcher.report import Entry, Run

SLICE = 0.1
MARKS = " ▁▂▃▄▅▆▇█"
INDENT = "  "


def draw(console: Console, outcomes: Sequence[DemoOutcome]) -> None:
    """Print the table, the remarks and the charts."""
    table = Table(title="\nOne limit, four processes, three ways to keep it")
    table.add_column("")
    for outcome in outcomes:
        table.add_column(outcome.title, justify="right")
    for rows in zip(*map(facts, outcomes), strict=True):
        table.add_row(rows[0][0], *(value for _, value in rows))
    console.print(table)
    for line in remarks(outcomes):
        console.print(f"\n{line}")
    _marks(console, outcomes)


def runs(outcomes: Sequence[DemoOutcome]) -> list[Run]:
    """Return the runs for the report."""
    return [
        Run(
            outcome.title,
            outcome.datastore.capacity,
            [Entry(one.at, one.instance, one.cost) for one in outcome.datastore.entries],
            holdings=outcome.holdings or (),
            partitions=PARTITIONS,
            refused=[one.at for one in outcome.datastore.refusals],
            marks=[(outcome.killed_at, f"{outcome.killed} is killed")],
            facts=facts(outcome),
        )
        for outcome in outcomes
    ]


def facts(outcome: DemoOutcome) -> list[tuple[str, str]]:
    """Return the rows of the table for one way."""
    return [
        ("calls refused (429)", f"{outcome.datastore.refused:,}"),
        ("calls wasted", f"{100 * outcome.wasted:.0f} %"),
        ("most asked in a second", f"{outcome.datastore.most_asked():.1f} x limit"),
        (f"time ({outcome.best:.1f} s at best)", f"{outcome.seconds:.1f} s"),
        ("used of the limit", f"{100 * outcome.used:.0f} %"),
        ("fairness (Jain's index)", f"{outcome.fairness:.2f}"),
        ("share of the killed one", _reuse(outcome)),
        ("needs Redis", "no" if outcome.holdings is None else "yes"),
    ]


def _reuse(outcome: DemoOutcome) -> str:
    freed = outcome.freed_after
    if freed is not None:
        return f"free after {freed:.1f} s"
    if outcome.holdings is not None or not outcome.others_wrote_on:
        return "-"
    if outcome.quarters:
        return "never used"
    return "used by all" if outcome.share_was_used else "-"


def remarks(outcomes: Sequence[DemoOutcome]) -> list[str]:
    """Return remarks that the table needs."""
    quarter, own, shared = outcomes
    lines = [
        "At best is with bursts: all that is allowed, at the beginning of each second. An even "
        "flow takes up to a second more.",
        f"Fairness compares what the four had written when {own.killed} was killed; 1 is equal.",
        f"{quarter.title.capitalize()}: no Redis. A quarter is idle when its process has no work "
        "or is killed. If yours always have the same work, take this.",
        f"{own.title.capitalize()}: retries after {FIRST_BACKOFF:g} to {LAST_BACKOFF:g} s, "
        "doubled, with jitter. With shorter waits they use all of the limit and waste more calls, "
        "with longer ones the reverse.",
        f"{shared.title.capitalize()}: each process leases from Redis what the others do not use. "
        "What a killed one held is free a lease, two sync intervals and a period later: about "
        f"{LEASE + 2 * INTERVAL + PERIOD:g} s here, 7 s with the defaults.",
    ]
    if quarter.datastore.refused or shared.datastore.refused:
        lines.append(
            "A few refusals are possible although the limit is kept: calls that waited on a busy "
            "machine arrive together."
        )
    return lines


def _marks(console: Console, outcomes: Sequence[DemoOutcome]) -> None:
    width = max(10, console.width - len(INDENT))
    slice_ = SLICE * math.ceil(max(one.seconds for one in outcomes) / SLICE / width)
    console.print(
        f"\nUse of the limit, each mark {slice_:.1f} s; a full mark is an even flow or more:"
    )
    for outcome in outcomes:
        marks = "".join(
            MARKS[min(8, max(0, round(share * 8)))]
            for share in outcome.datastore.use(slice_, outcome.began)
        )
        console.print(f"\n{INDENT}{outcome.title}\n{INDENT}{marks}")
    first = outcomes[0]
    before = INDENT + " " * int((first.killed_at - first.began) / slice_)
    console.print(f"{before}^ {first.killed} is killed")
