"""What can be completed after each command. Pure."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from typing import NamedTuple

from dispatcher.cli._options.options import Parser


class Option(NamedTuple):
    """An option, and what may come after it."""

    flags: tuple[str, ...]
    text: str
    takes_value: bool = False
    choices: tuple[str, ...] = ()
    is_file: bool = False


class Words(NamedTuple):
    """What may come after the words of `path`."""

    path: tuple[str, ...]
    commands: tuple[tuple[str, str], ...]
    """Names, and what they are for."""
    options: tuple[Option, ...]
    values: tuple[str, ...] = ()
    """Of an argument without a name."""


def all_words(parser: Parser, path: tuple[str, ...] = ()) -> Iterator[Words]:
    """Those of a command and of all below it."""
    options, commands, values = [], [], list[str]()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            commands += [(it.dest, _short(it.help)) for it in action._choices_actions]
        elif action.option_strings:
            options.append(_option(action))
        else:
            values += map(str, action.choices or ())
    yield Words(path, tuple(commands), tuple(options), tuple(values))
    for name, below in parser.below().items():
        yield from all_words(below, (*path, name))


def flags_with_values(words: list[Words]) -> list[str]:
    """After these comes a value, and no command."""
    return sorted(
        {it for one in words for its in one.options if its.takes_value for it in its.flags}
    )


def _option(action: argparse.Action) -> Option:
    return Option(
        tuple(action.option_strings),
        _short(action.help),
        takes_value=action.nargs != 0,
        choices=tuple(map(str, action.choices or ())),
        is_file=action.metavar == "FILE",
    )


def _short(text: str | None) -> str:
    """The first words of a help text, without what a shell would take for something else."""
    plain = re.sub(r"\s*\[DISPATCHER_\w+\]$", "", text or "")
    first = re.split(r"[;:]", plain)[0]
    return re.sub(r"[^\w ,/()+=-]", "", first.replace("%%", "%"))[:70].strip()
