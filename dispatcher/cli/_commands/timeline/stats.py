"""`dispatcher timeline stats`: numbers of messages, and how late they are."""

from __future__ import annotations

import json
import sys

from dispatcher.cli._commands.timeline.opening import now_ms, opened
from dispatcher.cli._commands.timeline.options import StatsOptions
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.backlog import as_json
from dispatcher.cli._text.moments import duration, from_now
from dispatcher.cli._text.showable import printable
from dispatcher.timeline import Stats


def run(options: StatsOptions, call: Invocation) -> None:
    """Show the numbers of a topic."""
    with opened(options) as timeline:
        stats, buckets, now = timeline.stats(), timeline.buckets, now_ms(timeline)
        where = timeline.where
    if options.json:
        told = as_json(options.topic, stats) | {"buckets": buckets}
        sys.stdout.write(json.dumps(told) + "\n")
        return
    show(page(f"topic {printable(options.topic)} in {where}", stats, buckets, now))


def page(title: str, stats: Stats, buckets: int, now: float) -> TablePage:
    """Return a row for each number, with what it means."""
    late = f"due; the oldest for {duration(stats.backlog_age)}" if stats.backlog_age else "due"
    upcoming = "not due yet"
    if stats.waiting and stats.next_due is not None and stats.next_due > now:
        upcoming = f"not due yet; the next one {from_now(stats.next_due, now)}"
    rows = [
        Row(("new", f"{stats.new:,}", f"{late}, not leased yet")),
        Row(("lost", f"{stats.lost:,}", "due again: their leases have ended")),
        Row(("waiting", f"{stats.waiting:,}", upcoming)),
        Row(("processing", f"{stats.processing:,}", "leased by a consumer")),
        Row(
            ("dead", f"{stats.dead:,}", "given up; for reasons: dispatcher timeline dead"),
            bool(stats.dead),
        ),
        Row(("", "", "")),
        Row(("created", f"{stats.created:,}", "ever")),
        Row(("deleted", f"{stats.deleted:,}", f"and {stats.remembered:,} of them are remembered")),
        Row(("consumers", f"{stats.consumers:,}", f"share {buckets:,} buckets")),
    ]
    return TablePage(("", ">", ""), rows, (title, ""), _notes(stats))


def _notes(stats: Stats) -> list[str]:
    notes = []
    if (stats.new or stats.lost) and not stats.consumers:
        notes.append("No consumer is running, and messages are due.")
    if stats.drift is not None and abs(stats.drift) > 1:
        ahead = "ahead of" if stats.drift > 0 else "behind"
        notes.append(
            f"The clock of this machine is {duration(abs(stats.drift))} {ahead} that of Redis."
        )
    return ["", *notes] if notes else []
