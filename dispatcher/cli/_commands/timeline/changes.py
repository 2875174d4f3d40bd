"""`dispatcher timeline move`, `delete` and `requeue`: many messages, with progress."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from dispatcher.cli._commands.timeline.completeness import check_complete
from dispatcher.cli._commands.timeline.opening import opened
from dispatcher.cli._commands.timeline.options import (
    ChangeOptions,
    DeleteOptions,
    DueOptions,
    MoveOptions,
    RequeueOptions,
)
from dispatcher.cli._commands.timeline.selecting import Selection, check_selection, selected
from dispatcher.cli._commands.timeline.wording import interrupted, messages, summed_up, tally
from dispatcher.cli._exit_codes import PartlyDoneError
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.confirming import confirm
from dispatcher.cli._terminal.progress import Progress
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.showable import printable
from dispatcher.timeline import MessageOutcome, Snapshot, Status, Timeline, TimelineUnavailableError


class MessageChange(NamedTuple):
    """The words for a change."""

    verb: str
    doing: str
    done: str


DELETE = MessageChange("delete", "deleting", "deleted")
MOVE = MessageChange("move", "moving", "moved")
REQUEUE = MessageChange("requeue", "requeueing", "requeued")

Act = Callable[[list[Snapshot]], list[MessageOutcome]]


def move(options: MoveOptions, call: Invocation) -> None:
    """Move the selected messages to another time."""
    _run(MOVE, options, call)


def delete(options: DeleteOptions, call: Invocation) -> None:
    """Delete the selected messages."""
    _run(DELETE, options, call)


def requeue(options: RequeueOptions, call: Invocation) -> None:
    """Let the selected dead messages live again."""
    _run(REQUEUE, options, call)


def _run(change: MessageChange, options: ChangeOptions, call: Invocation) -> None:
    _check(options)
    with opened(options) as timeline:
        chosen = selected(options, timeline)
        if options.dry_run:
            _tell_what_would_be(change, options, chosen, timeline)
            return
        number = None
        if not options.yes and len(chosen.names) != 1:
            number = _ask(change, options, chosen, timeline)
            if not number:
                _tell(change, options, Counter())
                return
        _carry_out(change, options, call, chosen, timeline, number)


def _tell_what_would_be(
    change: MessageChange, options: ChangeOptions, chosen: Selection, timeline: Timeline
) -> None:
    found, missing = chosen.look(timeline)
    if options.json:
        told = [
            {"group": group, "state": state, "number": n} for (group, state), n in found.items()
        ]
        sys.stdout.write(json.dumps({"would_be_" + change.done: told, **missing}) + "\n")
        return
    rows = [Row((printable(group), state, f"{n:,}")) for (group, state), n in sorted(found.items())]
    title = f"Nothing was {change.done}. It would be {messages(found.total())}"
    if not found and not missing:
        sys.stdout.write(title + ".\n")
        return
    foot = [summed_up(missing)] if missing else []
    show(
        TablePage(
            ("group", "state", ">number"), rows, (title + ":", ""), ("", *foot) if foot else ()
        )
    )


def _ask(
    change: MessageChange, options: ChangeOptions, chosen: Selection, timeline: Timeline
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
    options: ChangeOptions,
    call: Invocation,
    chosen: Selection,
    timeline: Timeline,
    number: int | None,
) -> None:
    act = _action(options, timeline)
    counts = Counter[str]()
    call.interrupted = interrupted({change.done: 0})
    with Progress(change.doing, number or len(chosen.names) or None) as progress:
        try:
            for page in chosen.pages(timeline, counts):
                counts.update(_done(change, chosen, act, page))
                call.interrupted = interrupted(counts)
                progress.tell(counts.total())
        except TimelineUnavailableError as error:
            if not counts:
                raise
            raise PartlyDoneError(f"{summed_up(counts)}, then it failed: {error}") from error
    _tell(change, options, counts)


def _action(options: ChangeOptions, timeline: Timeline) -> Act:
    operator = timeline.operator()
    if not isinstance(options, DueOptions):
        return operator.delete
    if options.at is None or options.at.relative:
        return partial(operator.move, delay=_ahead(options))
    return partial(operator.move, at=options.at.ms)


def _ahead(options: DueOptions) -> float:
    return (options.delay or 0.0) if options.at is None else options.at.ms / 1000


def _check(options: ChangeOptions) -> None:
    """Raise ValueError for options that are wrong for any topic."""
    check_selection(options)
    if not isinstance(options, DueOptions) or (options.at and not options.at.relative):
        return
    if _ahead(options) < 0:
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


def _tell(change: MessageChange, options: ChangeOptions, counts: Counter[str]) -> None:
    told = {change.done: counts[change.done], **counts}
    if options.json:
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.write(f"{summed_up(told)}\n")
    check_complete(counts, change.done, "already gone")
