"""What follows from the declaration of an option: its flag, variable, key, help and kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args, get_origin, get_type_hints

from dispatcher.cli._options.declaring import LOOKS, OptionLooks
from limiters._support.options import DeclaredOption, options_of


@dataclass(frozen=True)
class Setting:
    """An option of a command."""

    declared: DeclaredOption
    looks: OptionLooks
    many: bool
    read: Callable[[str], object] | None

    @property
    def attribute(self) -> str:
        """Its field."""
        return self.declared.name

    @property
    def kind(self) -> type | None:
        """str, int, float or bool; None if only `read` knows."""
        return None if self.read is not None else self.declared.kind

    @property
    def default(self) -> Any:
        """What it is if nobody says anything."""
        return () if self.many and self.declared.default is None else self.declared.default

    @property
    def flag(self) -> str:
        """--lease-time."""
        return self.looks.flag or flag_of(self.attribute)

    @property
    def name(self) -> str:
        """As it is in the file: lease-time."""
        return self.flag.removeprefix("--")

    @property
    def variable(self) -> str:
        """DISPATCHER_LEASE_TIME; "" if the command line alone says it."""
        if self.looks.variable or self.looks.positional:
            return self.looks.variable
        return f"DISPATCHER_{self.name.replace('-', '_').upper()}"

    @property
    def metavar(self) -> str:
        """What stands for its value in the help."""
        short = {int: "N", float: "S" if self.declared.unit == "s" else "N"}
        choices = self.looks.choices
        if choices and not self.looks.metavar:
            return f"{{{','.join(choices)}}}"
        return self.looks.metavar or short.get(self.kind or str) or self.name.upper()

    @property
    def called(self) -> str:
        """As it is in messages."""
        if self.looks.positional:
            return self.metavar
        return f"{self.flag}/--no-{self.name}" if self.kind is bool else self.flag

    @property
    def usage(self) -> str:
        """As it stands on a command line: --lease-time S."""
        if self.looks.positional or self.kind is bool:
            return self.metavar if self.looks.positional else self.flag
        return f"{self.flag} {self.metavar}"

    @property
    def purpose(self) -> str:
        """What it is for, with its unit. A `name` in it becomes a --name."""
        text = re.sub("`(\\w+)`", lambda name: flag_of(name[1]), self.declared.help)
        return f"{'in seconds: ' * (self.declared.unit == 's')}{text}"

    @property
    def default_text(self) -> str:
        """Its default as it would be written; "" if that says nothing."""
        default = self.declared.default
        if default in (None, (), "") or isinstance(default, bool):
            return ""
        return f"{default:g}" if isinstance(default, float) else str(default)

    @property
    def help(self) -> str:
        """All of that, and its variable."""
        default = f"; {self.default_text} if not said" if self.default_text else ""
        needed = "; needed" if self.declared.required and self.variable else ""
        variable = f" [{self.variable}]" if self.variable else ""
        return f"{self.purpose}{default}{needed}{variable}"


def flag_of(name: str) -> str:
    """The flag of a field, unless it has another one: --lease-time."""
    return f"--{name.replace('_', '-')}"


def settings_of(options: type) -> list[Setting]:
    """The options of a command, in their order. Fields that no text can be are none."""
    hints, found = get_type_hints(options), []
    declared = options_of(options)
    for one in fields(options):
        looks = one.metadata.get(LOOKS, OptionLooks())
        if not one.init or (declared[one.name].kind is None and looks.read is None):
            continue
        hint = hints[one.name]
        read = looks.read or _reader_of(hint)
        many = get_origin(hint) is tuple and read is None
        found.append(Setting(declared[one.name], looks, many, read))
    return found


def _reader_of(hint: object) -> Callable[[str], object] | None:
    """What reads a text, where its type alone does not say it."""
    kinds = {get_origin(one) or one for one in get_args(hint)}
    if {float, Mapping} <= kinds:
        return numbers_or_texts
    return number_or_text if {float, str} <= kinds else None


def numbers_or_texts(text: str) -> object:
    """What may be one value or several with names; each is a number if it looks like one.

    >>> numbers_or_texts("2.5"), numbers_or_texts("requests=1,tokens=size")
    (2.5, {'requests': 1.0, 'tokens': 'size'})
    """
    if "=" not in text:
        return number_or_text(text)
    parts = (part.partition("=") for part in text.split(","))
    return {name.strip(): number_or_text(value.strip()) for name, _, value in parts}


def number_or_text(text: str) -> float | str:
    """What may be either is a number if it looks like one.

    >>> number_or_text("2.5"), number_or_text("weight")
    (2.5, 'weight')
    """
    try:
        return float(text)
    except ValueError:
        return text
