"""`dispatcher top`: limits and topics, live."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dispatcher.cli._commands.connecting import naming_another
from dispatcher.cli._commands.leases import table as lease_table
from dispatcher.cli._commands.looking import ClusterObserver, ClusterView
from dispatcher.cli._commands.missing import no_such
from dispatcher.cli._commands.top.backlog import of_topics
from dispatcher.cli._commands.top.memory import Memory
from dispatcher.cli._commands.top.options import TopOptions
from dispatcher.cli._commands.top.picture import of_limit
from dispatcher.cli._commands.top.screen import print_once, screen
from dispatcher.cli._commands.top.spans import Line, line, wrapped
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.keys import TypedKeys
from dispatcher.cli._terminal.tables import fine_letters, is_terminal, terminal_width
from dispatcher.cli._text import backlog
from dispatcher.cli._text.moments import duration, shown
from dispatcher.cli._text.showable import printable, without_passwords
from limiters.errors import DispatcherError

UNBROKEN = 1_000
"""Width for a pipe or a file: no line is broken, and no name shortened."""


def run(options: TopOptions, call: Invocation) -> None:
    """Show the cluster once, or live."""
    names, topics = list(dict.fromkeys(options.names)), list(dict.fromkeys(options.topic))
    with ClusterObserver(options.redis, options.prefix, names, topics) as observer:
        if options.once:
            _once(options, observer)
        elif options.json:
            _lines_of_json(observer, options.interval)
        else:
            _live(observer, options.interval)


def _once(options: TopOptions, observer: ClusterObserver) -> None:
    try:
        seen = observer.look(budget=float("inf"))
    except DispatcherError as error:
        raise naming_another(options, error) from None
    if seen.is_empty:
        raise no_such(["limit and no topic"], options)
    missing = [f"limit {name!r}" for name, view in seen.limits.items() if view is None]
    missing += [f"topic {name!r}" for name, stats in seen.topics.items() if stats is None]
    if missing:
        raise no_such(missing, options)
    if options.json:
        _print(as_json(seen))
    else:
        columns = terminal_width() if is_terminal() else UNBROKEN
        print_once(Drawing().picture(seen, None, time.monotonic(), columns))
    if seen.errors:
        raise seen.errors[0]


def _lines_of_json(observer: ClusterObserver, pause: float) -> None:
    while True:
        try:
            _print(as_json(observer.look()))
        except DispatcherError as error:
            _print({"at": _now_ms(), "error": without_passwords(str(error))})
        time.sleep(pause)


def _live(observer: ClusterObserver, pause: float) -> None:
    seen, goes_on = ClusterView(), True
    with TypedKeys() as keys, screen() as draw:
        drawing = Drawing(leave="q leaves" if keys.are_read else "")
        while goes_on:
            try:
                seen, trouble = observer.look(), None
            except DispatcherError as error:
                trouble = without_passwords(str(error))
            draw(drawing.picture(seen, trouble, time.monotonic(), terminal_width()))
            goes_on = not keys.typed("q", pause)


class Drawing:
    """Draws each view, with what is remembered of earlier ones. Not thread-safe."""

    def __init__(self, *, leave: str = "") -> None:
        self._leave = leave
        self._memories: dict[str, Memory] = {}
        self._answered: float | None = None

    def picture(
        self, seen: ClusterView, trouble: str | None, now: float, columns: int
    ) -> Sequence[Line]:
        """Return the lines. During an outage: the last view, and what is wrong."""
        lines = [
            line(f"{shown(_now_ms())}   {self._leave}".rstrip(), "dim"),
            *self._trouble(trouble, now, columns),
            line(""),
        ]
        if trouble is None and seen.is_empty:
            lines.append(line("there is no limit and no topic", "yellow"))
        for name, view in seen.limits.items():
            if view is None:
                lines.append(line(f"limit {printable(name)}: there is no such limit", "yellow"))
            elif isinstance(view, DispatcherError):
                lines += wrapped(f"limit {printable(name)}: {_said(view)}", columns, "red")
            else:
                memory = self._memories.setdefault(name, Memory())
                if trouble is None:
                    memory.observe(view, now)
                lines += of_limit(name, view, memory, now, columns, fine=fine_letters())
            lines.append(line(""))
        readable = {
            name: stats
            for name, stats in seen.topics.items()
            if not isinstance(stats, DispatcherError)
        }
        lines += of_topics(readable, columns)
        for name, stats in seen.topics.items():
            if isinstance(stats, DispatcherError):
                lines += wrapped(f"topic {printable(name)}: {_said(stats)}", columns, "red")
        return lines

    def _trouble(self, trouble: str | None, now: float, columns: int) -> list[Line]:
        if trouble is None:
            self._answered = now
            return []
        lines = wrapped(trouble, columns, "bold red")
        if self._answered is None:
            lines.append(line("retrying"))
        else:
            ago = duration(now - self._answered)
            lines.append(line(f"this is from {ago} ago; retrying"))
        return lines


def as_json(seen: ClusterView) -> dict[str, object]:
    """Return the view for scripts."""
    return {
        "at": _now_ms(),
        "limits": {
            name: _as_json(view, partial(lease_table.as_json, name))
            for name, view in seen.limits.items()
        },
        "topics": {
            name: _as_json(stats, partial(backlog.as_json, name))
            for name, stats in seen.topics.items()
        },
    }


def _as_json(one: Any, written: Callable[[Any], dict[str, Any]]) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"error": _said(one)} if isinstance(one, DispatcherError) else written(one)


def _now_ms() -> int:
    return round(time.time() * 1000)


def _said(error: DispatcherError) -> str:
    return printable(without_passwords(str(error)))


def _print(told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
