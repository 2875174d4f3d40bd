"""`dispatcher timeline list`: all topics and their backlogs."""

from __future__ import annotations

import json
import sys

from dispatcher.cli._commands.looking import look_once
from dispatcher.cli._commands.missing import none_at_all
from dispatcher.cli._commands.timeline.options import TopicListOptions
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.backlog import NOBODY, TITLES, as_json, cells_of, is_left_alone
from dispatcher.cli._text.showable import printable, showable
from dispatcher.timeline import Stats
from limiters.errors import DispatcherError

COLUMNS = ("=topic", *(f">{title}" for title in TITLES), "")


def run(options: TopicListOptions, call: Invocation) -> None:
    """List the topics, with their backlogs."""
    topics = look_once(options, topics=True).topics
    seen = {name: stats for name, stats in topics.items() if stats is not None}
    if options.json:
        sys.stdout.write(json.dumps([_as_json(*one) for one in seen.items()]) + "\n")
    elif seen:
        show(TablePage(COLUMNS, [_row(*one) for one in seen.items()]))
    else:
        sys.stdout.write(none_at_all("topic", options))


def _row(topic: str, stats: Stats | DispatcherError) -> Row:
    if isinstance(stats, DispatcherError):
        said = "unreadable: see timeline stats"
        return Row((printable(topic), *["-"] * len(TITLES), said), marked=True)
    alone = is_left_alone(stats)
    return Row((printable(topic), *cells_of(stats), NOBODY if alone else ""), alone)


def _as_json(topic: str, stats: Stats | DispatcherError) -> dict[str, object]:
    if isinstance(stats, DispatcherError):
        return {"topic": topic, "error": showable(str(stats))}
    return as_json(topic, stats)
