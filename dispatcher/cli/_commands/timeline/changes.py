"""`dispatcher timeline move`, `delete` and `requeue`: many messages, with progress."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from dispatcher.cli._commands.timeline.opening import add_json, add_topic, opened
from dispatcher.cli._commands.timeline.selecting import (
    Selection,
    add_selection,
    check_selection,
    selected,
)
from dispatcher.cli._commands.timeline.wording import interrupted, messages, summed_up, tally
from dispatcher.cli._options.options import printable
from dispatcher.cli._terminal.confirming import confirm
from dispatcher.cli._terminal.progress import Progress
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.moments import DURATIONS, TIMES, When, seconds_of, when_of
from dispatcher.timeline import MessageOutcome, Snapshot, Status, Timeline, TimelineUnavailableError
from dispatcher.timeline.errors import TimelineError

NOTE = (
    "Each is changed in the name of the group that owns it, and only if nothing has changed it "
    "since it\nwas seen. What a consumer has is left alone. With more than one it asks first."
)


class MessageChange(NamedTuple):
    """What is done, in words."""

    verb: str
    doing: str
    done: str


DELETE = MessageChange("delete", "deleting", "deleted")
MOVE = MessageChange("move", "moving", "moved")
REQUEUE = MessageChange("requeue", "requeueing", "requeued")

Act = Callable[[list[Snapshot]], list[MessageOutcome]]


def add_commands(actions: Any) -> None:
    """Adds `move`, `delete` and `requeue` to the actions."""
    move = actions.add_parser(
        "move",
        help="to another time",
        description=f"Moves messages to another time.\n{NOTE}",
        epilog="examples:\n  dispatcher timeline move mails welcome-7 --delay 10m\n"
        "  dispatcher timeline move mails --state new --at 2026-05-01T08:00 --dry-run",
    )
    add_topic(move)
    add_selection(move)
    target = move.add_mutually_exclusive_group(required=True)
    _add_target(target)
    _finish(move, MOVE)
    delete = actions.add_parser(
        "delete",
        help="for good",
        description=f"Deletes messages for good.\n{NOTE}",
        epilog="examples:\n  dispatcher timeline delete mails welcome-7 welcome-8\n"
        "  dispatcher timeline delete mails --state dead --to=-7d --dry-run\n"
        "  dispatcher timeline dead mails --json | jq -r .id |\n"
        "    dispatcher timeline delete mails - --yes",
    )
    add_topic(delete)
    add_selection(delete)
    _finish(delete, DELETE)
    requeue = actions.add_parser(
        "requeue",
        help="let dead messages live again",
        description="Puts dead messages back onto the timeline, with all their attempts: all of "
        f"them, or some.\n{NOTE}",
        epilog="examples:\n  dispatcher timeline requeue mails --dry-run\n"
        "  dispatcher timeline requeue mails --of-group signup --delay 1m --yes",
    )
    add_topic(requeue)
    add_selection(requeue, dead_only=True)
    _add_target(requeue.add_mutually_exclusive_group())
    _finish(requeue, REQUEUE)


def _add_target(group: argparse._ActionsContainer) -> None:
    group.add_argument("--at", type=when_of, metavar="TIME", help=f"due then: {TIMES}")
    group.add_argument(
        "--delay", type=seconds_of, metavar="DURATION", help=f"due so long from now: {DURATIONS}"
    )


def _finish(parser: argparse.ArgumentParser, change: MessageChange) -> None:
    add_json(parser, "one line of JSON with the number of each outcome")
    parser.set_defaults(run=partial(_run, change))


def _run(change: MessageChange, options: argparse.Namespace) -> None:
    _check(change, options)
    with opened(options) as timeline:
        chosen = selected(options, timeline, dead_only=change is REQUEUE)
        if options.dry_run:
            _tell_what_would_be(change, options, chosen, timeline)
            return
        number = None
        if not options.yes and len(chosen.names) != 1:
            number = _ask(change, options, chosen, timeline)
            if not number:
                _tell(change, options, Counter())
                return
        _carry_out(change, options, chosen, timeline, number)


def _tell_what_would_be(
    change: MessageChange, options: argparse.Namespace, chosen: Selection, timeline: Timeline
) -> None:
    found, missing = chosen.look(timeline)
    if options.json:
        told = [
            {"group": group, "state": state, "number": n} for (group, state), n in found.items()
        ]
        sys.stdout.write(json.dumps({"would_be_" + change.done: told, **missing}) + "\n")
        return
    rows = [Row((printable(group), state, f"{n:,}")) for (group, state), n in sorted(found.items())]
    title = f"Nothing was {change.done}. It would be {messages(found.total())}:"
    foot = [summed_up(missing)] if missing else []
    show(TablePage(("group", "state", ">number"), rows, (title, ""), ("", *foot) if foot else ()))


def _ask(
    change: MessageChange, options: argparse.Namespace, chosen: Selection, timeline: Timeline
) -> int:
    found, _ = chosen.look(timeline)
    number = found.total()
    if number > 1:
        states = Counter[str]()
        for (_, state), count in found.items():
            states[state] += count
        confirm(
            f"{change.verb.capitalize()} {messages(number)} of topic {printable(options.topic)} in "
            f"{timeline.where}? ({summed_up(states)})",
            change.done,
        )
    return number


def _carry_out(
    change: MessageChange,
    options: argparse.Namespace,
    chosen: Selection,
    timeline: Timeline,
    number: int | None,
) -> None:
    act = _action(change, options, timeline)
    counts = Counter[str]()
    options.interrupted = interrupted({change.done: 0})
    with Progress(change.doing, number or len(chosen.names) or None) as progress:
        try:
            for page in chosen.pages(timeline, counts):
                counts.update(_done(change, chosen, act, page))
                options.interrupted = interrupted(counts)
                progress.tell(counts.total())
        except TimelineUnavailableError as error:
            if not counts:
                raise
            raise TimelineError(f"{error}; before that: {summed_up(counts)}") from error
    _tell(change, options, counts)


def _action(change: MessageChange, options: argparse.Namespace, timeline: Timeline) -> Act:
    operator = timeline.operator()
    if change is DELETE:
        return operator.delete
    when: When | None = options.at
    if when is None or when.relative:
        return partial(operator.move, delay=_ahead(options))
    return partial(operator.move, at=when.ms)


def _ahead(options: argparse.Namespace) -> float:
    when: When | None = options.at
    return (options.delay or 0.0) if when is None else when.ms / 1000


def _check(change: MessageChange, options: argparse.Namespace) -> None:
    """ValueError for what no topic could change."""
    check_selection(options, dead_only=change is REQUEUE)
    if change is not DELETE and (options.at is None or options.at.relative) and _ahead(options) < 0:
        raise ValueError("--at must not be in the past: nothing can be due before now")


def _done(change: MessageChange, chosen: Selection, act: Act, page: list[Snapshot]) -> Counter[str]:
    counts = Counter[str]()
    if change is REQUEUE and chosen.names:
        alive = [it for it in page if it.status is not Status.DEAD]
        counts.update({"not dead": len(alive)} if alive else {})
        page = [it for it in page if it.status is Status.DEAD]
    counts.update(tally(act(page)))
    if change is REQUEUE and "moved" in counts:
        counts["requeued"] = counts.pop("moved")
    return counts


def _tell(change: MessageChange, options: argparse.Namespace, counts: Counter[str]) -> None:
    told = {change.done: counts[change.done], **counts}
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.write(f"{summed_up(told)}\n")
    failed = {word: n for word, n in counts.items() if word not in (change.done, "already gone")}
    if failed:
        raise TimelineError(f"not all could be {change.done}: {summed_up(failed)}")
