"""What a command is, and its options: fields of a frozen dataclass, from which all is derived.

    @dataclass(frozen=True, kw_only=True)
    class LeasesOptions(LimitOptions):
        watch: float | None = option("show it again, so many seconds apart", "SECONDS")
        json: bool = flag("a line of JSON, for scripts")

The option's name on the command line, in a variable and in the file, its help and its completion
follow from the field. `dispatcher --help` imports what stands here, and nothing of what the
commands do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from importlib import import_module
from typing import Any

from limiters._support.options import Check, about

LOOKS = "command line"
"""The key in a field's metadata."""


@dataclass(frozen=True, kw_only=True)
class OptionLooks:
    """What only a command line needs to know of an option."""

    metavar: str = ""
    flag: str = ""
    """If it is not called like its field."""
    read: Callable[[str], object] | None = None
    """Makes the value of a text; if not said, its type does."""
    choices: Sequence[str] | None = None
    variable: str = ""
    """If that of its name means something else to another command."""
    group: str = ""
    """A title in the help."""
    positional: bool = False


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
    """A field that is an option with a value. If its type is a tuple, it may be said again."""
    metadata = about(help, check, unit=unit) | {LOOKS: OptionLooks(metavar=metavar, **looks)}
    return field(default=MISSING if required else default, metadata=metadata)


def flag(help: str, **looks: Any) -> Any:  # noqa: A002
    """A field that is an option without a value: `--fail-fast`, or `--no-fail-fast`."""
    return field(default=False, metadata=about(help) | {LOOKS: OptionLooks(**looks)})


def argument(metavar: str, help: str, default: Any = MISSING, **looks: Any) -> Any:  # noqa: A002
    """A field without a flag: what a call is about. It stands on the command line alone, unless
    it has a `variable`."""
    how = OptionLooks(metavar=metavar, positional=True, **looks)
    return field(default=default, metadata=about(help) | {LOOKS: how})


@dataclass(frozen=True, kw_only=True)
class Command:
    """What is said of a command, and where its code is."""

    help: str = ""
    """In the list of its group."""
    description: str
    epilog: str
    options: type
    run: str
    """module:function, which is imported when it runs; takes the options and an Invocation."""
    exclusive: Sequence[str] = ()
    """Fields of which the nearest place says one at most."""
    needs_one: bool = False
    """Whether one of them must be said."""
    replaced: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of a positional field, those that do not count beside it unless the command line says them,
    too: what a variable says of many messages must not stand in the way of naming some."""
    interrupted: str = "interrupted\n"
    lenient: str = ""
    """A flag with which values that are refused do not end it: it says itself what is wrong."""


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
    """A command of which more is imported when more than its help is asked for."""

    help: str
    where: str
    """module:NAME."""


def imported(where: str) -> Any:
    """What stands at module:name."""
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)
