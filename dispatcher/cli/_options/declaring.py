"""Declare a command and its options: fields of a frozen dataclass, from which all is derived.

    @dataclass(frozen=True, kw_only=True)
    class LeasesOptions(LimitOptions):
        watch: float | None = option("show it again, so many seconds apart", "SECONDS")
        json: bool = flag("a line of JSON, for scripts")

The option's name on the command line, in a variable and in the file, its help and its completion
follow from the field. `dispatcher --help` imports what stands here, and nothing of what the
commands do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from importlib import import_module
from typing import Any

from limiters._support.options import Check, Read, about

LOOKS = "command line"
"""The key in a field's metadata."""


@dataclass(frozen=True, kw_only=True)
class OptionLooks:
    """Attributes of an option that only a command line needs."""

    metavar: str = ""
    flag: str = ""
    """The flag, if it is not named like its field."""
    read: Read | None = None
    """Parses a text; by default the type of the field does."""
    choices: Sequence[str] | None = None
    variable: str = ""
    """The variable, if the usual one has another meaning for another command."""
    group: str = ""
    """A title in the help."""
    positional: bool = False
    by_dimension: bool = False
    """Whether it may have a value for each dimension: in the file, a table."""


def option(
    help: str,  # noqa: A002
    metavar: str,
    default: Any = None,
    *,
    required: bool = False,
    check: Check | None = None,
    unit: str = "",
    **looks: Any,
) -> Any:
    """Return a field that is an option with a value. If its type is a tuple, it is repeatable."""
    metadata = about(help, check, unit=unit) | {LOOKS: OptionLooks(metavar=metavar, **looks)}
    return field(default=MISSING if required else default, metadata=metadata)


def flag(help: str, **looks: Any) -> Any:  # noqa: A002
    """Return a field that is an option without a value: `--fail-fast`, or `--no-fail-fast`."""
    return field(default=False, metadata=about(help) | {LOOKS: OptionLooks(**looks)})


def argument(metavar: str, help: str, default: Any = MISSING, **looks: Any) -> Any:  # noqa: A002
    """Return a field without a flag: the subject of a call. It is set on the command line alone,
    unless it has a `variable`."""
    how = OptionLooks(metavar=metavar, positional=True, **looks)
    return field(default=default, metadata=about(help) | {LOOKS: how})


@dataclass(frozen=True, kw_only=True)
class Command:
    """The description of a command, and its code."""

    help: str = ""
    """Its line in the list of its group."""
    description: str
    epilog: str
    options: type
    run: str
    """module:function, which is imported when it runs; takes the options and an Invocation."""
    exclusive: Sequence[str] = ()
    """Fields that exclude each other: the nearest place sets at most one."""
    needs_one: bool = False
    """Whether one of them is required."""
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """For a positional field, the fields that are ignored if it is given, unless the command line
    sets them too: a variable that selects many messages must not prevent naming some."""
    interrupted: str = "interrupted\n"
    lenient: str = ""
    """A flag with which wrong values do not end the command: it reports them itself."""


@dataclass(frozen=True, kw_only=True)
class CommandGroup:
    """Commands below a command."""

    help: str = ""
    description: str
    epilog: str
    title: str
    metavar: str
    commands: Mapping[str, Command | CommandGroup | CommandElsewhere]


@dataclass(frozen=True)
class CommandElsewhere:
    """A command whose module is imported only when more than its line in the help is needed."""

    help: str
    where: str
    """The command as `module:NAME`."""


def imported(where: str) -> Any:
    """Import the object `module:name`."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
