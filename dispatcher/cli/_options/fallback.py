"""Where the value of an option comes from: the command line, a variable, the file, its default."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time
from typing import Any

from dispatcher.cli._options.configuration import Configuration, Found, as_text
from dispatcher.cli._options.declaring import Setting

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
"""What an option may be there."""

NOT_A = {int: "it must be a whole number", float: "not a number"}


@dataclass(frozen=True)
class Used:
    """The value of an option that counts, as it was written, and who wrote it."""

    setting: Setting
    value: Any
    written: object
    place: int
    source: str


def used(setting: Setting, given: Any, command: Sequence[str], file: Configuration | None) -> Used:
    """The value that counts; `given` is what the command line says, or None. An ArgumentTypeError
    says why that cannot be the value."""
    if given is not None:
        return Used(setting, _read(setting, given), given, COMMAND_LINE, "command line")
    variable = os.environ.get(setting.variable) if setting.variable else None
    if variable:  # one that is empty counts as none
        value = _from_variable(setting, variable)
        return Used(setting, value, variable, VARIABLE, setting.variable)
    found = file.find(command, setting.name) if file is not None and setting.variable else None
    if found is not None:
        return Used(setting, _from_file(setting, found), found.value, FILE, found.where)
    return not_said(setting)


def not_said(setting: Setting) -> Used:
    """Its default."""
    return Used(setting, setting.default, setting.default, DEFAULT, "default")


def nearest_alone(all_used: Iterable[Used]) -> list[Used]:
    """Of options that exclude each other those that the nearest place says: one, or a mistake."""
    said = [one for one in all_used if one.place != DEFAULT]
    place = min((one.place for one in said), default=DEFAULT)
    return [one for one in said if one.place == place]


def _read(setting: Setting, given: Any) -> Any:
    if isinstance(given, list):
        return tuple(_from_text(setting, one) for one in given)
    return given if isinstance(given, bool) else _from_text(setting, given)


def _from_variable(setting: Setting, text: str) -> Any:
    """Where there may be many, with commas between them."""
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
    types, what = IN_THE_FILE[setting.kind]
    if not isinstance(value, types) or (isinstance(value, bool) and setting.kind is not bool):
        a_list = " or a list of such" if setting.many else ""
        raise _wrong(value, f"it must be {what}{a_list}", where)
    return value if isinstance(value, bool) else _from_text(setting, as_text(value), where)


def _from_text(setting: Setting, text: str, source: str = "") -> object:
    """One value, as it stands on a command line or, with a `source`, elsewhere."""
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
    """What a variable says of a flag.

    >>> boolean("yes"), boolean("0")
    (True, False)
    """
    word = text.strip().lower()
    if word not in YES + NO:
        raise ArgumentTypeError(f"it is one of {', '.join(YES)}, or {', '.join(NO)}")
    return word in YES


def _wrong(value: object, said: str, source: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"{f'{source} is ' if source else ''}{value!r}: {said}")
