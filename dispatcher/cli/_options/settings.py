"""Derive flag, variable, key, help and type of an option from its declaration."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, get_origin, get_type_hints

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
        """The name of its field."""
        return self.declared.name

    @property
    def kind(self) -> type | None:
        """str, int, float or bool; None if only `read` can parse it."""
        return None if self.read is not None else self.declared.kind

    @property
    def is_by_dimension(self) -> bool:
        """Whether it may have a value for each dimension: in the file, a table."""
        return self.looks.by_dimension or self.declared.read is not None

    @property
    def default(self) -> Any:
        return () if self.many and self.declared.default is None else self.declared.default

    @property
    def flag(self) -> str:
        """The flag, such as --lease-time."""
        return self.looks.flag or flag_of(self.attribute)

    @property
    def name(self) -> str:
        """The name in the file, such as lease-time."""
        return self.flag.removeprefix("--")

    @property
    def variable(self) -> str:
        """The variable, such as DISPATCHER_LEASE_TIME; "" if it has none."""
        if self.looks.variable or self.looks.positional:
            return self.looks.variable
        return f"DISPATCHER_{self.name.replace('-', '_').upper()}"

    @property
    def metavar(self) -> str:
        """The placeholder of its value in the help."""
        short = {int: "N", float: "S" if self.declared.unit == "s" else "N"}
        choices = self.looks.choices
        if choices and not self.looks.metavar:
            return f"{{{','.join(choices)}}}"
        name = self.name.rpartition("-")[2] if self.is_by_dimension else self.name
        return self.looks.metavar or short.get(self.kind or str) or name.upper()

    @property
    def called(self) -> str:
        """The name in messages."""
        if self.looks.positional:
            return self.metavar
        return f"{self.flag}/--no-{self.name}" if self.kind is bool else self.flag

    @property
    def usage(self) -> str:
        """Its form on a command line: --lease-time S."""
        if self.looks.positional or self.kind is bool:
            return self.metavar if self.looks.positional else self.flag
        return f"{self.flag} {self.metavar}"

    @property
    def purpose(self) -> str:
        """Its purpose, with the unit. A `name` in it becomes a --name."""
        text = re.sub("`(\\w+)`", lambda name: flag_of(name[1]), self.declared.help)
        return f"{'in seconds: ' * (self.declared.unit == 's')}{text}"

    @property
    def default_text(self) -> str:
        """Its default as it would be written; "" if there is no need to show it."""
        default = self.declared.default
        if default in (None, (), "") or isinstance(default, bool):
            return ""
        return f"{default:g}" if isinstance(default, float) else str(default)

    @property
    def help(self) -> str:
        """The complete help, with the variable."""
        default = f"; default: {self.default_text}" if self.default_text else ""
        required = "; required" if self.declared.required and self.variable else ""
        variable = f" [{self.variable}]" if self.variable else ""
        return f"{self.purpose}{default}{required}{variable}"


def flag_of(name: str) -> str:
    """Return the flag of a field that has no other one: --lease-time."""
    return f"--{name.replace('_', '-')}"


def settings_of(options: type) -> list[Setting]:
    """Return the options of a command, in their order, without fields that cannot be written as
    text."""
    hints, found = get_type_hints(options), []
    declared = options_of(options)
    for one in fields(options):
        looks = one.metadata.get(LOOKS, OptionLooks())
        read = looks.read or declared[one.name].read
        if not one.init or (declared[one.name].kind is None and read is None):
            continue
        many = get_origin(hints[one.name]) is tuple and read is None
        found.append(Setting(declared[one.name], looks, many, read))
    return found
