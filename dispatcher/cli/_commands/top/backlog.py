"""The backlog of topics as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dispatcher.cli._commands.top.spans import Line, line, wrapped
from dispatcher.cli._text.backlog import TITLES, cells_of, is_left_alone
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import shortened
from dispatcher.timeline import Stats

LEAST_LABEL = 12


def of_topics(topics: Mapping[str, Stats | None], width: int) -> list[Line]:
    """Return a line for each topic; None is a topic that does not exist."""
    if not topics:
        return []
    rows = {name: cells_of(stats) for name, stats in topics.items() if stats is not None}
    widths = [max(map(len, column)) for column in zip(TITLES, *rows.values(), strict=True)]
    longest = max(len("topic"), *(len(printable(name)) for name in topics))
    label = min(longest, max(LEAST_LABEL, width - sum(widths) - 2 * len(widths)))
    titles = "  ".join(title.rjust(wide) for title, wide in zip(TITLES, widths, strict=True))
    lines: list[Line] = [line(f"{'topic':<{label}}  {titles}", "bold")]
    for name, stats in topics.items():
        called = f"{shortened(printable(name), label):<{label}}  "
        if stats is None:
            lines.append(line(f"{called}there is no such topic", "yellow"))
            continue
        numbers = "  ".join(cell.rjust(wide) for cell, wide in zip(rows[name], widths, strict=True))
        lines.append(line(called + numbers, "red" if is_left_alone(stats) else ""))
    alone = [printable(it) for it, stats in topics.items() if stats and is_left_alone(stats)]
    return [
        *lines,
        *(wrapped(f"no consumer of {', '.join(alone)}", width, "red") if alone else []),
    ]
