"""`dispatcher timeline peek` and `dead`: looks at messages without leasing them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dispatcher.cli._commands.timeline.opening import add_json, add_topic, now_ms, opened
from dispatcher.cli._commands.timeline.wording import as_json, body_text, cropped, time_of
from dispatcher.cli._options.options import printable
from dispatcher.cli._terminal.tables import Row, TablePage, show, terminal_width
from dispatcher.cli._text.moments import TIMES, shown, when_of
from dispatcher.timeline import Snapshot, Status, Timeline
from dispatcher.timeline._reading.peeking import MOST
from dispatcher.timeline.errors import TimelineError
from dispatcher.timeline.operator import LIVING

STATES = tuple(state.value for state in (*LIVING, Status.DEAD))

LIMIT = 20
LONGEST_REASON = 40
"""Letters of why a message is dead that a table shows; --json shows all."""

NARROW = 20
"""How much of a body is shown at least."""


def add_commands(actions: Any) -> None:
    """Adds `peek` and `dead` to the actions."""
    peek = actions.add_parser(
        "peek",
        help="the first messages by time, without leasing them",
        description="Shows the first messages by time: when they are due, their lease ends, or "
        "they died. Nothing is\nchanged. The body of a message that a consumer has is not told.",
        epilog="examples:\n  dispatcher timeline peek mails --limit 5\n"
        "  dispatcher timeline peek mails --state lost --state new --to=-1h\n"
        "  dispatcher timeline peek mails --id welcome-7 --json | jq .body",
    )
    add_topic(peek)
    _add_limit(peek)
    peek.add_argument(
        "--state",
        action="append",
        choices=STATES,
        help="only those in this state; may be said again; all but dead if not said",
    )
    add_range(peek)
    peek.add_argument(
        "--id", action="append", default=[], metavar="ID", help="these messages instead"
    )
    add_json(peek, "a line of JSON for each message, with all of its body")
    peek.set_defaults(run=_peek)
    dead = actions.add_parser(
        "dead",
        help="the messages that were given up",
        description="Shows the messages that were given up and the reasons, the first "
        "that died first.\n`requeue` lets them live again, `delete --state dead` deletes them.",
        epilog="example:\n  dispatcher timeline dead mails --json | jq -r .id",
    )
    add_topic(dead)
    _add_limit(dead)
    add_json(dead, "a line of JSON for each message, with all of its body")
    dead.set_defaults(run=_dead)


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        type=int,
        metavar="N",
        default=LIMIT,
        help=f"how many at most, up to {MOST}; {LIMIT} if not said",
    )


def add_range(parser: argparse.ArgumentParser) -> None:
    """--from and --to."""
    parser.add_argument(
        "--from", dest="start", type=when_of, metavar="TIME", help=f"not before: {TIMES}"
    )
    parser.add_argument(
        "--to", dest="end", type=when_of, metavar="TIME", help="before; in the past it is --to=-1h"
    )


def _peek(options: argparse.Namespace) -> None:
    with opened(options) as timeline:
        if options.id:
            seen = by_id(timeline, options.id)
        else:
            now = now_ms(timeline)
            seen = timeline.operator().peek(
                options.limit,
                start=options.start and options.start.at(now),
                end=options.end and options.end.at(now),
                states=options.state or LIVING,
            )
        _tell(options, timeline, seen, "no such message")


def _dead(options: argparse.Namespace) -> None:
    with opened(options) as timeline:
        seen = timeline.operator().peek(options.limit, states=[Status.DEAD])
        _tell(options, timeline, seen, "no message is dead")


def by_id(timeline: Timeline, names: Sequence[str]) -> list[Snapshot]:
    """The messages that were named, which must all be there."""
    found = timeline.operator().get(names)
    missing = [printable(it.id) for it in found if not isinstance(it, Snapshot)]
    if missing:
        raise TimelineError(f"there is no message {', '.join(missing[:5])} in this topic")
    return [it for it in found if isinstance(it, Snapshot)]


def _tell(
    options: argparse.Namespace, timeline: Timeline, seen: list[Snapshot], nothing: str
) -> None:
    if options.json:
        for snapshot in seen:
            sys.stdout.write(json.dumps(as_json(snapshot)) + "\n")
    elif not seen:
        sys.stdout.write(f"{nothing}\n")
    else:
        show(page(seen, now_ms(timeline), terminal_width()))


def page(seen: Sequence[Snapshot], now: float, width: int) -> TablePage:
    """A row for each message. Where `width` is not enough, what matters least is left out, and
    bodies are cropped."""
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
