"""Where the value of an option comes from: the command line, a variable, the file, its default."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dispatcher.cli._options.configuration import Configuration, Found, as_text

COMMAND_LINE, DEFAULT = "command line", "default"

YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Setting:
    """An option that may stand elsewhere than on the command line. Raises ArgumentTypeError."""

    name: str
    """As it is in the file: lease-time."""
    kind: Callable[[str], object]
    default: object = None
    required: bool = False
    many: bool = False
    choices: Sequence[str] | None = None

    @property
    def variable(self) -> str:
        """DISPATCHER_LEASE_TIME."""
        return f"DISPATCHER_{self.name.replace('-', '_').upper()}"

    def from_text(self, given: str, source: str = "") -> object:
        """One value, as it stands on a command line or, with a `source`, in a variable."""
        try:
            value = self.kind(given)
        except (ValueError, argparse.ArgumentTypeError) as error:
            said = str(error) if isinstance(error, argparse.ArgumentTypeError) else "not a number"
            raise _wrong(given, said, source) from None
        if self.choices is not None and value not in self.choices:
            raise _wrong(given, f"it is one of {', '.join(self.choices)}", source)
        return value

    def from_variable(self, text: str) -> object:
        """What a variable says; where there may be many, with commas between them."""
        if not self.many:
            return self.from_text(text, self.variable)
        parts = [part.strip() for part in text.split(",")]
        return [self.from_text(part, self.variable) for part in parts if part]

    def from_file(self, found: Found) -> object:
        """What the file says."""
        if self.many and isinstance(found.value, list):
            return [self._one(value, found.where) for value in found.value]
        value = self._one(found.value, found.where)
        return [value] if self.many else value

    def _one(self, value: object, where: str) -> object:
        text, a_list = as_text(value), " or a list of such" if self.many else ""
        if self.kind is boolean:
            if not isinstance(value, bool):
                raise _wrong(value, "it must be true or false", where)
            return value
        if self.kind is int and (isinstance(value, (str, float)) or text is None):
            raise _wrong(value, f"it must be a whole number{a_list}", where)
        if self.kind is float and (isinstance(value, str) or text is None):
            raise _wrong(value, f"it must be a number{a_list}", where)
        if self.kind is str and not isinstance(value, str):
            raise _wrong(value, f'it must be a text in "quotes"{a_list}', where)
        if text is None:
            raise _wrong(value, f"it must be a text or a number{a_list}", where)
        return self.from_text(text, where)


@dataclass(frozen=True, slots=True)
class Used:
    """The value of an option that counts, as it was written, and who wrote it."""

    name: str
    value: object
    written: object
    source: str


def used(setting: Setting, given: Any, command: Sequence[str], file: Configuration | None) -> Used:
    """The value that counts; `given` is what the command line says, or None."""
    if given is not None:
        return Used(setting.name, _read(setting, given), given, COMMAND_LINE)
    variable = os.environ.get(setting.variable)
    if variable:  # one that is empty counts as none
        return Used(setting.name, setting.from_variable(variable), variable, setting.variable)
    found = None if file is None else file.find(command, setting.name)
    if found is not None:
        return Used(setting.name, setting.from_file(found), found.value, found.where)
    default = [] if setting.many and setting.default is None else setting.default
    return Used(setting.name, _read(setting, default), default, DEFAULT)


def _read(setting: Setting, given: Any) -> object:
    if isinstance(given, list):
        return [_read(setting, one) for one in given]
    return setting.from_text(given) if isinstance(given, str) else given


def boolean(text: str) -> bool:
    """The kind of a flag.

    >>> boolean("yes"), boolean("0")
    (True, False)
    """
    word = text.strip().lower()
    if word not in YES + NO:
        raise argparse.ArgumentTypeError(f"it is one of {', '.join(YES)}, or {', '.join(NO)}")
    return word in YES


def _wrong(value: object, said: str, source: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"{f'{source} is ' if source else ''}{value!r}: {said}")
