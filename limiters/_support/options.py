"""Options that are declared once: a field of a dataclass says what it is for and what it may be.

    @documented
    @dataclass(frozen=True, kw_only=True)
    class Sending(CheckedOptions):
        concurrency: int = field(default=16, metadata=about("batches in flight", count))
        patience: Seconds = field(default=60, metadata=about("of the caller", seconds, unit="s"))

Everything else is derived: `CheckedOptions` runs the checks, `documented` writes the docstring's
list, and `options_of` tells all there is to know to whoever reads options from a command line, a
file or Spark. A class that inherits from several such dataclasses has the options of each.

Types are read at run time: import them outside of TYPE_CHECKING.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from datetime import timedelta
from typing import Any, TypeVar, get_args, get_type_hints

_ABOUT = "about"
_TEXT_KINDS = (str, float, int, bool)
_WIDTH = 96

Check = Callable[[str, Any], object]
"""Raises an ArgumentError of that name unless the value will do, as those of `validation`."""
Class = TypeVar("Class", bound=type)


def about(help: str, check: Check | None = None, *, unit: str = "") -> dict[str, Any]:  # noqa: A002
    """The metadata of a field: `help` begins in lower case and ends without a full stop.

    A value of None is not checked where it is the default.
    """
    return {_ABOUT: (help, check, unit)}


@dataclass(frozen=True)
class DeclaredOption:
    """One option of a class, for what is derived from it."""

    name: str
    kind: type | None
    """What it is written as where there are only texts: str, int, float or bool. None: it cannot
    be written, such as an object or a function."""
    default: Any
    required: bool
    help: str
    unit: str
    check: Check | None


class CheckedOptions:
    """The base of dataclasses whose fields are options: all are checked when one is made.

    What several options must be together is checked in a `__post_init__` that calls this one
    first.

    >>> from dataclasses import field
    >>> from limiters._support.validation import count
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Sending(CheckedOptions):
    ...     concurrency: int = field(default=16, metadata=about("batches in flight", count))
    >>> Sending(concurrency=0)
    Traceback (most recent call last):
    limiters._support.validation.ArgumentError: concurrency must be at least 1, not 0
    """

    def __post_init__(self) -> None:
        for option in fields(self):  # type: ignore[arg-type]
            _, check, _ = option.metadata.get(_ABOUT, ("", None, ""))
            value = getattr(self, option.name)
            if check is not None and not (value is None and option.default is None):
                check(option.name, value)


def options_of(cls: type) -> dict[str, DeclaredOption]:
    """The options of `cls` by their names, required ones first."""
    hints = get_type_hints(cls)
    declared = [_option(field, hints[field.name]) for field in fields(cls) if field.init]
    return {one.name: one for one in sorted(declared, key=lambda one: not one.required)}


def documented(cls: Class) -> Class:
    """`cls`, a dataclass, with a list of its options at the end of its docstring."""
    if cls.__doc__:  # there is none with python -OO
        listed = (_line(option) for option in options_of(cls).values() if option.help)
        cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__), "", *listed])
    return cls


def _option(field: Field[Any], hint: Any) -> DeclaredOption:
    text, check, unit = field.metadata.get(_ABOUT, ("", None, ""))
    required = field.default is MISSING and field.default_factory is MISSING
    default = None if field.default is MISSING else field.default
    return DeclaredOption(field.name, _kind(hint), default, required, text, unit, check)


def _kind(hint: Any) -> type | None:
    """What a text is read as, among the types that `hint` allows: whole numbers are floats too."""
    allowed = set(get_args(hint) or [hint]) - {type(None), timedelta}
    return next((kind for kind in _TEXT_KINDS if kind in allowed), None)


def _line(option: DeclaredOption) -> str:
    unit = f" ({option.unit})" if option.unit else ""
    told = f"* `{option.name}`{unit}: {option.help}."
    return textwrap.fill(told, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
