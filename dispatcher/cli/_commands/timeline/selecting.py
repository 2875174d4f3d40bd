"""Select messages for an action: by ids, or by state, group and time."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dispatcher.cli._commands.timeline.opening import now_ms
from dispatcher.cli._commands.timeline.options import ChangeOptions, DeleteOptions
from dispatcher.cli._commands.timeline.wording import WORDS
from dispatcher.cli._terminal.progress import Progress
from dispatcher.timeline import Invalid, NotFound, Snapshot, Status, Timeline
from dispatcher.timeline.errors import TimelineError

AT_ONCE = 500

FREE = (Status.NEW, Status.LOST, Status.WAITING)
"""The states of live messages without a lease."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Ids; or, without any, the messages in one of the states, of a group, in a range of time."""

    names: Sequence[str] = ()
    states: Sequence[Status] = FREE
    group: str | None = None
    start: int | None = None
    end: int | None = None

    def pages(self, timeline: Timeline, missing: Counter[str]) -> Iterator[list[Snapshot]]:
        """Yield the messages, some at a time; count in `missing` the ids that do not exist."""
        operator = timeline.operator()
        for at in range(0, len(self.names), AT_ONCE):
            found = operator.get(self.names[at : at + AT_ONCE])
            missing.update(WORDS[type(it)] for it in found if isinstance(it, (NotFound, Invalid)))
            yield [it for it in found if isinstance(it, Snapshot)]
        cursor, more = "", not self.names
        while more:
            seen, cursor = operator.list(
                AT_ONCE,
                cursor,
                group=self.group,
                states=self.states,
                start=self.start,
                end=self.end,
                bodies=False,
            )
            yield seen
            more = bool(cursor)

    def look(self, timeline: Timeline) -> tuple[Counter[tuple[str, str]], Counter[str]]:
        """Count messages by group and state, and the ids that do not exist."""
        found, missing = Counter[tuple[str, str]](), Counter[str]()
        with Progress("looking") as progress:
            for page in self.pages(timeline, missing):
                found.update((it.group, it.status.value) for it in page)
                progress.tell(found.total())
        return found, missing


def check_selection(options: ChangeOptions) -> None:
    """Raise ValueError if the options select no messages, or select them in two ways."""
    says_all = isinstance(options, DeleteOptions) and options.all
    every = says_all or not isinstance(options, DeleteOptions)
    if options.ids and (options.is_filtered or says_all):
        raise ValueError("name messages, or select them by options, but not both")
    if not options.ids and not options.is_filtered and not every:
        raise ValueError("select messages: by ids, or --state, --of-group, --from, --to, --all")


def selected(options: ChangeOptions, timeline: Timeline) -> Selection:
    """Return the selection of the options, which were checked: without states the dead messages."""
    now = now_ms(timeline)
    states: Sequence[Status] = (Status.DEAD,)
    if isinstance(options, DeleteOptions):
        states = list(map(Status, options.state)) or FREE
    return Selection(
        _names(options.ids),
        states,
        options.of_group,
        None if options.start is None else options.start.at(now),
        None if options.end is None else options.end.at(now),
    )


def _names(given: Sequence[str]) -> list[str]:
    names: list[str] = []
    for name in given:
        if name == "-":
            names += (line for line in map(str.strip, sys.stdin) if line)
        else:
            names.append(name)
    if given and not names:
        raise TimelineError("there are no ids on stdin")
    return list(dict.fromkeys(names))
