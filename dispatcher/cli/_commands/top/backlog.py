"""The backlog of topics as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dispatcher.cli._commands.top.spans import Line, TextSpan, line
from dispatcher.cli._text.moments import duration
from dispatcher.cli._text.showable import printable
from dispatcher.timeline import Stats

TITLES = ("due", "late", "waiting", "leased", "dead", "consumers")


def of_topics(topics: Mapping[str, Stats | None]) -> list[Line]:
    """A line for each topic; None is one that does not exist."""
    if not topics:
        return []
    rows = {name: _cells_of(stats) for name, stats in topics.items() if stats is not None}
    widths = [max(map(len, column)) for column in zip(TITLES, *rows.values(), strict=True)]
    label = max(len("topic"), *(len(printable(name)) for name in topics))
    titles = "  ".join(title.rjust(wide) for title, wide in zip(TITLES, widths, strict=True))
    lines: list[Line] = [line(f"{'topic':<{label}}  {titles}", "bold")]
    for name, stats in topics.items():
        if stats is None:
            lines.append(line(f"{printable(name):<{label}}  there is no such topic", "yellow"))
            continue
        numbers = "  ".join(cell.rjust(wide) for cell, wide in zip(rows[name], widths, strict=True))
        lines.append([TextSpan(f"{printable(name):<{label}}  {numbers}"), *_trouble(stats)])
    return lines


def _cells_of(stats: Stats) -> tuple[str, ...]:
    due = stats.new + stats.lost
    return (
        f"{due:,}",
        duration(stats.backlog_age) if due else "-",
        f"{stats.waiting:,}",
        f"{stats.processing:,}",
        f"{stats.dead:,}",
        f"{stats.consumers:,}",
    )


def _trouble(stats: Stats) -> list[TextSpan]:
    if (stats.new or stats.lost) and not stats.consumers:
        return [TextSpan("  nobody consumes it", "red")]
    return []
