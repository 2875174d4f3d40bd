"""Determine the value of an option: from the command line, a variable, the file, or its default."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any

from dispatcher.cli._options.configuration import Configuration, Found, as_text
from dispatcher.cli._options.declaring import Command
from dispatcher.cli._options.settings import Setting

COMMAND_LINE, VARIABLE, FILE, DEFAULT = range(4)
"""The places, the nearest first."""

YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")

IN_THE_FILE: dict[type | None, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), 'a text in "quotes"'),
    None: ((str, int, float, date, time), "a text or a number"),
}
"""The types that an option may have in the file, in words."""

NOT_A = {int: "it must be a whole number", float: "not a number"}


@dataclass(frozen=True)
class Used:
    """The value of an option, as it was written, and its source."""

    setting: Setting
    value: Any
    written: object
    place: int
    source: str

    @property
    def from_elsewhere(self) -> str:
        """Return the variable or file of the value, for a message; "" if it is from elsewhere."""
        return f" (from {self.source})" if self.place in (VARIABLE, FILE) else ""


def settled(
    command: Command,
    settings: Sequence[Setting],
    given: Mapping[str, Any],
    words: Sequence[str],
    file: Configuration | None,
) -> list[Used]:
    """Return the value of each option of a command, where `given` are those of its command line.
    ArgumentTypeError names what is wrong."""
    found = {}
    for setting in settings:
        try:
            found[setting.attribute] = used(setting, given.get(setting.attribute), words, file)
        except ArgumentTypeError as error:
            raise ArgumentTypeError(f"argument {setting.called}: {error}") from None
    exclusive = [found[name] for name in command.exclusive]
    alone = _nearest(exclusive)
    if command.needs_one and alone is None:
        flags = " ".join(one.setting.flag for one in exclusive)
        raise ArgumentTypeError(f"one of the arguments {flags} is required")
    for one in exclusive:
        if one is not alone:
            found[one.setting.attribute] = _not_said(one.setting)
    for name, others in command.replaced.items():
        if found[name].place == COMMAND_LINE:
            for other in others:
                if found[other].place != COMMAND_LINE:
                    found[other] = _not_said(found[other].setting)
    missing = [
        one.setting.called
        for one in found.values()
        if one.setting.declared.required and one.value in (None, ())
    ]
    if missing:
        raise ArgumentTypeError(f"the following arguments are required: {', '.join(missing)}")
    return list(found.values())


def used(setting: Setting, given: Any, command: Sequence[str], file: Configuration | None) -> Used:
    """Return the value of an option; `given` is that of the command line, or None."""
    if given is not None:
        return Used(setting, _read(setting, given), given, COMMAND_LINE, "command line")
    variable = os.environ.get(setting.variable) if setting.variable else None
    if variable:  # an empty variable counts as not set
        value = _from_variable(setting, variable)
        return Used(setting, value, variable, VARIABLE, setting.variable)
    found = file.find(command, setting.name) if file is not None and setting.variable else None
    if found is not None:
        return Used(setting, _from_file(setting, found), found.value, FILE, found.where)
    return _not_said(setting)


def _not_said(setting: Setting) -> Used:
    return Used(setting, setting.default, setting.default, DEFAULT, "default")


def _nearest(exclusive: Sequence[Used]) -> Used | None:
    """Of options that exclude each other, return the one in the nearest place."""
    said = [one for one in exclusive if one.place != DEFAULT]
    nearest = [one for one in said if one.place == min(it.place for it in said)]
    if len(nearest) > 1:
        first, second = (f"{one.setting.called}{one.from_elsewhere}" for one in nearest[:2])
        raise ArgumentTypeError(f"argument {second}: not allowed with argument {first}")
    return nearest[0] if nearest else None


def _read(setting: Setting, given: Any) -> Any:
    if isinstance(given, list):
        return tuple(_from_text(setting, one) for one in given)
    return given if isinstance(given, bool) else _from_text(setting, given)


def _from_variable(setting: Setting, text: str) -> Any:
    """Split the value of an option with several values at commas."""
    if not setting.many:
        return _from_text(setting, text, setting.variable)
    parts = (part.strip() for part in text.split(","))
    return tuple(_from_text(setting, part, setting.variable) for part in parts if part)


def _from_file(setting: Setting, found: Found) -> Any:
    if not setting.many:
        return _one_from_file(setting, found.value, found.where)
    values = found.value if isinstance(found.value, list) else [found.value]
    return tuple(_one_from_file(setting, value, found.where) for value in values)


def _one_from_file(setting: Setting, value: object, where: str) -> object:
    try:
        text = as_text(value)
    except ValueError:  # Python prints no number of more than 4,300 digits
        raise ArgumentTypeError(f"{where}: the number is too long") from None
    types, what = IN_THE_FILE[setting.kind]
    if setting.is_by_dimension:
        types, what = (*types, dict), f"{what}, or a table of dimensions"
    if not isinstance(value, types) or (isinstance(value, bool) and setting.kind is not bool):
        a_list = " or a list of such" if setting.many else ""
        raise _wrong(value, f"it must be {what}{a_list}", where)
    return value if isinstance(value, bool) else _from_text(setting, text, where)


def _from_text(setting: Setting, text: str, source: str = "") -> object:
    """Parse one value, from the command line or, with a `source`, from elsewhere."""
    read = setting.read or (boolean if setting.kind is bool else setting.kind or str)
    try:
        value = read(text)
    except ArgumentTypeError as error:
        raise _wrong(text, str(error), source) from None
    except ValueError:
        raise _wrong(text, NOT_A.get(setting.kind or float, "not a number"), source) from None
    choices = setting.looks.choices
    if choices is not None and value not in choices:
        raise _wrong(text, f"it is one of {', '.join(choices)}", source)
    return value


def boolean(text: str) -> bool:
    """Parse a flag in a variable.

    >>> boolean("yes"), boolean("0")
    (True, False)
    """
    word = text.strip().lower()
    if word not in YES + NO:
        raise ArgumentTypeError(f"it is one of {', '.join(YES)}, or {', '.join(NO)}")
    return word in YES


def _wrong(value: object, said: str, source: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{f'{source} is ' if source else ''}{value!r}: {said}")
