"""`dispatcher timeline peek` and `dead`: show messages without leasing them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from dispatcher.cli._commands.timeline.opening import now_ms, opened
from dispatcher.cli._commands.timeline.options import DeadOptions, PeekOptions
from dispatcher.cli._commands.timeline.wording import as_json, body_text, cropped, time_of
from dispatcher.cli._exit_codes import NotThereError
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import Row, TablePage, show, terminal_width
from dispatcher.cli._text.moments import shown
from dispatcher.cli._text.showable import printable
from dispatcher.timeline import Snapshot, Status, Timeline
from dispatcher.timeline.operator import LIVING

LONGEST_REASON = 40
"""Number of characters of a reason that a table shows; --json shows all."""

NARROW = 20
"""Minimum width of a body."""


def peek(options: PeekOptions, call: Invocation) -> None:
    """Show live messages, or those with given ids."""
    with opened(options) as timeline:
        if options.id:
            seen = by_id(timeline, options.id)
        else:
            now = now_ms(timeline)
            seen = timeline.operator().peek(
                options.limit,
                start=None if options.start is None else options.start.at(now),
                end=None if options.end is None else options.end.at(now),
                states=options.state or LIVING,
            )
        _tell(options, timeline, seen, "no such message")


def dead(options: DeadOptions, call: Invocation) -> None:
    with opened(options) as timeline:
        seen = timeline.operator().peek(options.limit, states=[Status.DEAD])
        _tell(options, timeline, seen, "no message is dead")


def by_id(timeline: Timeline, names: Sequence[str]) -> list[Snapshot]:
    """Return the messages with these ids, which must all exist."""
    found = timeline.operator().get(names)
    missing = [printable(it.id) for it in found if not isinstance(it, Snapshot)]
    if missing:
        raise NotThereError(f"there is no message {', '.join(missing[:5])} in this topic")
    return [it for it in found if isinstance(it, Snapshot)]


def _tell(options: DeadOptions, timeline: Timeline, seen: list[Snapshot], nothing: str) -> None:
    if options.json:
        for snapshot in seen:
            sys.stdout.write(json.dumps(as_json(snapshot)) + "\n")
    elif not seen:
        sys.stdout.write(f"{nothing}\n")
    else:
        show(page(seen, now_ms(timeline), terminal_width()))


def page(seen: Sequence[Snapshot], now: float, width: int) -> TablePage:
    """Return a row for each message. Where `width` is not enough, the least important columns are
    left out, and bodies are cropped."""
    table: dict[str, list[str]] = {
        "id": [printable(it.id) for it in seen],
        "group": [printable(it.group) for it in seen],
        "state": [it.status.value for it in seen],
        "": [time_of(it, now) for it in seen],
        "time": [shown(it.time) for it in seen],
        ">attempts": [f"{it.attempts:,}" for it in seen],
    }
    if any(it.reason for it in seen):
        table["reason"] = [cropped(printable(it.reason), LONGEST_REASON) for it in seen]
    for title in ("time", ">attempts", "group", "state"):
        if _taken(table) + NARROW > width:
            del table[title]
    room = max(NARROW, width - _taken(table))
    table["body"] = [cropped(body_text(it), room) for it in seen]
    rows = zip(*table.values(), strict=True)
    lost = [it.status is Status.LOST for it in seen]
    return TablePage(list(table), [Row(row, one) for row, one in zip(rows, lost, strict=True)])


def _taken(table: Mapping[str, Sequence[str]]) -> int:
    return sum(max(len(title), *map(len, cells)) + 2 for title, cells in table.items())
