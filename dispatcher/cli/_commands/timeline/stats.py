"""`dispatcher timeline stats`: what a topic has, had, and how late it is."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Any

from dispatcher.cli._commands.timeline.opening import add_json, add_topic, now_ms, opened
from dispatcher.cli._options.options import printable
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.moments import from_now
from dispatcher.cli._text.wording import duration
from dispatcher.timeline import Stats


def add_command(actions: Any) -> None:
    """Adds `stats` to the actions."""
    parser = actions.add_parser(
        "stats",
        help="what it has, had, and how late it is",
        description="Counts the messages of a topic by state. The numbers are exact, and cost the "
        "same however\nmany there are.",
        epilog="example:\n  dispatcher timeline stats mails\n"
        "  dispatcher timeline stats mails --json | jq .backlog_age",
    )
    add_topic(parser)
    add_json(parser, "one line of JSON, durations in seconds, times in epoch milliseconds")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    with opened(options) as timeline:
        stats, buckets, now = timeline.stats(), timeline.buckets, now_ms(timeline)
        where = timeline.where
    if options.json:
        told = {"topic": options.topic, **asdict(stats), "buckets": buckets}
        sys.stdout.write(json.dumps(told | {"remaining": stats.remaining}) + "\n")
        return
    show(page(f"topic {printable(options.topic)} in {where}", stats, buckets, now))


def page(title: str, stats: Stats, buckets: int, now: float) -> TablePage:
    """A row for each number, with what it means."""
    late = f"due; the oldest for {duration(stats.backlog_age)}" if stats.backlog_age else "due"
    upcoming = "not due yet"
    if stats.waiting and stats.next_due is not None and stats.next_due > now:
        upcoming = f"not due yet; the next one {from_now(stats.next_due, now)}"
    rows = [
        Row(("new", f"{stats.new:,}", f"{late}, and nobody has them")),
        Row(("lost", f"{stats.lost:,}", "due again: whoever had them did not keep its lease")),
        Row(("waiting", f"{stats.waiting:,}", upcoming)),
        Row(("processing", f"{stats.processing:,}", "leased by a consumer")),
        Row(
            ("dead", f"{stats.dead:,}", "given up; dispatcher timeline dead says why"),
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
        notes.append("Nobody consumes it, and something is due.")
    if stats.drift is not None and abs(stats.drift) > 1:
        ahead = "ahead of" if stats.drift > 0 else "behind"
        notes.append(
            f"The clock of this machine is {duration(abs(stats.drift))} {ahead} that of Redis."
        )
    return ["", *notes] if notes else []
