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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, fields
from datetime import timedelta
from typing import Any, TypeVar, get_args, get_type_hints

_ABOUT = "about"
_TEXT_KINDS = (str, float, int, bool)
_WIDTH = 96

Check = Callable[[str, Any], object]
"""Raises an ArgumentError of that name unless the value will do, as those of `validation`."""
Class = TypeVar("Class", bound=type)


Read = Callable[[str], object]
"""Returns what a text stands for; ValueError if it stands for nothing."""


def about(
    help: str,  # noqa: A002
    check: Check | None = None,
    *,
    unit: str = "",
    read: Read | None = None,
) -> dict[str, Any]:
    """The metadata of a field: `help` begins in lower case and ends without a full stop.

    A value of None is not checked where it is the default. `read` is for an option whose type does
    not say how it is read where there are only texts.
    """
    return {_ABOUT: (help, check, unit, read)}


@dataclass(frozen=True)
class DeclaredOption:
    """One option of a class, for what is derived from it."""

    name: str
    kind: type | None
    """What it is written as where there are only texts: str, int, float or bool. None where `read`
    says that, or it cannot be written, such as an object or a function."""
    default: Any
    required: bool
    help: str
    unit: str
    check: Check | None
    read: Read | None = None
    """How a text is read, where `kind` does not say it."""

    @property
    def can_be_written(self) -> bool:
        """Whether there is a text for each of its values."""
        return self.kind is not None or self.read is not None


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
        for _ in _checked(self):
            pass


class ConvertedOptions(CheckedOptions):
    """CheckedOptions that keep what the checks return, such as seconds in place of a timedelta."""

    def __post_init__(self) -> None:
        for name, value in _checked(self):
            object.__setattr__(self, name, value)  # it is frozen


def _checked(options: CheckedOptions) -> Iterator[tuple[str, object]]:
    """Each option that has a check, with what that returns."""
    for option in fields(options):  # type: ignore[arg-type]
        _, check, *_ = option.metadata.get(_ABOUT, ("", None))
        if check is None:  # one that is no option may have no value yet
            continue
        value = getattr(options, option.name)
        if not (value is None and option.default is None):
            yield option.name, check(option.name, value)


def options_of(cls: type) -> dict[str, DeclaredOption]:
    """The options of `cls` by their names: positional ones first, then required ones."""
    hints = get_type_hints(cls)
    return {field.name: _option(field, hints[field.name]) for field in _given(cls)}


def values_of(cls: type, source: object) -> dict[str, Any]:
    """The options of `cls` that `source` has, too, with its values."""
    shared = {field.name for field in fields(source)}  # type: ignore[arg-type]
    return {
        field.name: getattr(source, field.name) for field in _given(cls) if field.name in shared
    }


def documented(cls: Class) -> Class:
    """`cls`, a dataclass, with a list of its options at the end of its docstring, and types that
    can be looked up, also of options that it inherits from other modules."""
    init: Any = cls.__init__  # type: ignore[misc]
    annotate(init, inspect.signature(init), cls)
    append(cls, listed(cls))
    return cls


def annotate(function: Any, signature: inspect.Signature, options: type) -> None:
    """Gives `function` this `signature`, with types as they are written, and what they stand for
    to `typing.get_type_hints`: only the modules of `options` and of its bases know that. Texts
    stay where a type is known to type checkers alone."""
    try:
        known = get_type_hints(options)
    except NameError:
        known = {}
    written = {it.name: it.annotation for it in signature.parameters.values()}
    written["return"] = signature.return_annotation
    function.__annotations__ = {
        name: known.get(name, it)
        for name, it in written.items()
        if it is not inspect.Signature.empty
    }
    function.__signature__ = signature


def append(owner: Any, lines: Iterable[str]) -> None:
    """Puts `lines` at the end of the docstring of a class or function."""
    if owner.__doc__:  # there is none with python -OO
        owner.__doc__ = "\n".join([inspect.cleandoc(owner.__doc__), "", *lines])


def listed(cls: type) -> list[str]:
    """A line of Markdown for each option of `cls`: what a docstring says of it. Unlike
    `options_of` it does not look at types, which may not be there at run time."""
    declared = [
        (field.name, field.metadata[_ABOUT]) for field in _given(cls) if _ABOUT in field.metadata
    ]
    return [line(name, text, unit) for name, (text, _, unit, _) in declared]


def line(name: str, text: str, unit: str = "") -> str:
    """A line of Markdown for one option."""
    told = f"* `{name}`{f' ({unit})' if unit else ''}: {text}."
    return textwrap.fill(told, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _given(cls: type) -> list[Field[Any]]:
    """The fields that whoever makes one gives."""
    given = (field for field in fields(cls) if field.init)
    return sorted(given, key=lambda field: (field.kw_only, not _is_required(field)))


def _option(field: Field[Any], hint: Any) -> DeclaredOption:
    text, check, unit, read = field.metadata.get(_ABOUT, ("", None, "", None))
    default = None if field.default is MISSING else field.default
    required = _is_required(field)
    kind = None if read is not None else _kind(hint)
    return DeclaredOption(field.name, kind, default, required, text, unit, check, read)


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _kind(hint: Any) -> type | None:
    """What a text is read as, among the types that `hint` allows: whole numbers are floats too."""
    allowed = set(get_args(hint) or [hint]) - {type(None), timedelta}
    return next((kind for kind in _TEXT_KINDS if kind in allowed), None)
