"""Options that are declared once: a field of a dataclass says what it is for and what it may be.

    @documented
    @dataclass(frozen=True, kw_only=True)
    class Sending(CheckedOptions):
        concurrency: int = field(default=16, metadata=about("batches in flight", count))
        patience: Seconds = field(default=60, metadata=about("of the caller", seconds, unit="s"))

Everything else is derived: `CheckedOptions` runs the checks, `documented` writes the docstring's
list, and `options_of` returns all that is needed to read options from a command line, a file or
Spark. A class that inherits from several such dataclasses has the options of each.

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
"""A function that raises an ArgumentError of that name if the value is wrong, as in
`validation`."""
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
    """Return the metadata of a field: `help` begins in lower case and ends without a full stop.

    A value of None is not checked if it is the default. `read` reads a text for an option whose
    type does not say how.
    """
    return {_ABOUT: (help, check, unit, read)}


@dataclass(frozen=True)
class DeclaredOption:
    """One option of a class, for what is derived from it."""

    name: str
    kind: type | None
    """The type that a text for this option has: str, int, float or bool. None if `read` reads the
    text, or if there is no text for it, as for an object or a function."""
    default: Any
    required: bool
    help: str
    unit: str
    check: Check | None
    read: Read | None = None
    """How a text is read, if `kind` is None."""

    @property
    def can_be_written(self) -> bool:
        """Whether there is a text for each of its values."""
        return self.kind is not None or self.read is not None


class CheckedOptions:
    """The base of dataclasses whose fields are options: all are checked when one is made.

    Rules for several options together are checked in a `__post_init__` that calls this one first.

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
    """Iterate over the options that have a check, with the values that the checks return."""
    for option in fields(options):  # type: ignore[arg-type]
        _, check, *_ = option.metadata.get(_ABOUT, ("", None))
        if check is None:  # a field that is no option may have no value yet
            continue
        value = getattr(options, option.name)
        if not (value is None and option.default is None):
            yield option.name, check(option.name, value)


def options_of(cls: type) -> dict[str, DeclaredOption]:
    """Return the options of `cls` by their names: positional ones first, then required ones."""
    hints = get_type_hints(cls)
    return {field.name: _option(field, hints[field.name]) for field in _given(cls)}


def values_of(cls: type, source: object) -> dict[str, Any]:
    """Return the options of `cls` that `source` has as well, with its values."""
    shared = {field.name for field in fields(source)}  # type: ignore[arg-type]
    return {
        field.name: getattr(source, field.name) for field in _given(cls) if field.name in shared
    }


def documented(cls: Class) -> Class:
    """Return `cls`, a dataclass, with a list of its options at the end of its docstring. Its types
    can be looked up, also for options that it inherits from other modules."""
    init: Any = cls.__init__  # type: ignore[misc]
    annotate(init, inspect.signature(init), cls)
    append(cls, listed(cls))
    return cls


def annotate(function: Any, signature: inspect.Signature, options: type) -> None:
    """Give `function` this `signature`. Its types, as they are written, are looked up in the
    modules of `options` and of its bases, so that `typing.get_type_hints` can return them. A type
    that only type checkers can look up stays a text."""
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
    """Put `lines` at the end of the docstring of a class or function."""
    if owner.__doc__:  # there is none with python -OO
        owner.__doc__ = "\n".join([inspect.cleandoc(owner.__doc__), "", *lines])


def listed(cls: type) -> list[str]:
    """Return a line of Markdown for each option of `cls`, for a docstring. Unlike `options_of` it
    does not look at types, which may not exist at run time."""
    declared = [
        (field.name, field.metadata[_ABOUT]) for field in _given(cls) if _ABOUT in field.metadata
    ]
    return [line(name, text, unit) for name, (text, _, unit, _) in declared]


def line(name: str, text: str, unit: str = "") -> str:
    """Return a line of Markdown for one option."""
    entry = f"* `{name}`{f' ({unit})' if unit else ''}: {text}."
    return textwrap.fill(entry, _WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _given(cls: type) -> list[Field[Any]]:
    """Return the fields that are arguments of `cls`: positional ones first, then required ones."""
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
    """Return the type of a text for `hint`, among the types that it allows; float includes whole
    numbers."""
    allowed = set(get_args(hint) or [hint]) - {type(None), timedelta}
    return next((kind for kind in _TEXT_KINDS if kind in allowed), None)
