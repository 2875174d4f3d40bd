"""`dispatcher top`: limits and topics, live."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from dispatcher.cli._commands.connecting import naming_another, no_such
from dispatcher.cli._commands.leases import table as lease_table
from dispatcher.cli._commands.top.backlog import of_topics
from dispatcher.cli._commands.top.looking import ClusterObserver, ClusterView
from dispatcher.cli._commands.top.memory import Memory
from dispatcher.cli._commands.top.options import TopOptions
from dispatcher.cli._commands.top.picture import of_limit
from dispatcher.cli._commands.top.screen import print_once, screen
from dispatcher.cli._commands.top.spans import Line, TextSpan, line
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import fine_letters, terminal_width
from dispatcher.cli._text.moments import duration, shown
from dispatcher.cli._text.showable import printable, without_passwords
from limiters.errors import DispatcherError


def run(options: TopOptions, call: Invocation) -> None:
    """Shows it once, or live."""
    if not options.names and not options.topic:
        raise ValueError(
            "name a limit (dispatcher top NAME) or a topic (--topic TOPIC), or both; dispatcher "
            "exporter --once names all that there are"
        )
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
        seen = observer.look()
    except DispatcherError as error:
        raise naming_another(options, error) from None
    missing = [f"limit {name!r}" for name, view in seen.limits.items() if view is None]
    missing += [f"topic {name!r}" for name, stats in seen.topics.items() if stats is None]
    if missing:
        raise no_such(missing, options)
    if options.json:
        _print(as_json(seen))
    else:
        print_once(Drawing().picture(seen, None, time.monotonic(), terminal_width()))
    if seen.errors:
        raise seen.errors[0]


def _lines_of_json(observer: ClusterObserver, pause: float) -> None:
    while True:
        try:
            _print(as_json(observer.look()))
        except DispatcherError as error:
            _print({"at": time.time(), "error": without_passwords(str(error))})
        time.sleep(pause)


def _live(observer: ClusterObserver, pause: float) -> None:
    drawing, seen = Drawing(), ClusterView()
    with screen() as draw:
        while True:
            try:
                seen, trouble = observer.look(), None
            except DispatcherError as error:
                trouble = without_passwords(str(error))
            draw(drawing.picture(seen, trouble, time.monotonic(), terminal_width()))
            time.sleep(pause)


class Drawing:
    """Makes a picture of each look, with what is remembered of those before. Not thread-safe."""

    def __init__(self) -> None:
        self._memories: dict[str, Memory] = {}
        self._answered: float | None = None

    def picture(
        self, seen: ClusterView, trouble: str | None, now: float, columns: int
    ) -> Sequence[Line]:
        """The lines of it. While there is `trouble`, what was seen last, and what is wrong."""
        lines = [line(shown(time.time() * 1000), "dim"), *self._trouble(trouble, now), line("")]
        for name, view in seen.limits.items():
            if view is None:
                lines.append(line(f"limit {printable(name)}: there is no such limit", "yellow"))
            elif isinstance(view, DispatcherError):
                lines.append(line(f"limit {printable(name)}: {_said(view)}", "red"))
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
        lines += of_topics(readable)
        for name, stats in seen.topics.items():
            if isinstance(stats, DispatcherError):
                lines.append(line(f"topic {printable(name)}: {_said(stats)}", "red"))
        return lines

    def _trouble(self, trouble: str | None, now: float) -> list[Line]:
        if trouble is None:
            self._answered = now
            return []
        lines: list[Line] = [[TextSpan(trouble, "bold red")]]
        if self._answered is None:
            lines.append(line("it is asked again and again"))
        else:
            ago = duration(now - self._answered)
            lines.append(line(f"this is from {ago} ago; it is asked again and again"))
        return lines


def as_json(seen: ClusterView) -> dict[str, object]:
    """The same for scripts."""
    return {
        "at": time.time(),
        "limits": {
            name: _as_json(view, partial(lease_table.as_json, name))
            for name, view in seen.limits.items()
        },
        "topics": {name: _as_json(stats, asdict) for name, stats in seen.topics.items()},
    }


def _as_json(one: Any, written: Callable[[Any], dict[str, Any]]) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"error": _said(one)} if isinstance(one, DispatcherError) else written(one)


def _said(error: DispatcherError) -> str:
    return printable(without_passwords(str(error)))


def _print(told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
