"""Checks of arguments. Each check returns the value in the form that the program uses, or raises an
ArgumentError."""

from __future__ import annotations

import math
import numbers
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from limiters._support.passwords import without_passwords
from limiters.errors import Sendable

Seconds = float | timedelta
"""A duration as users may write it: seconds, or a timedelta."""

UNSHOWN: Final = object()
"""Used in place of a value that no message may show, since it may hold a password or gives no
information."""


MAX_AMOUNT = 1e100
"""Far below the largest float, so that the sum of many amounts is finite."""

_MOST_EXACT = 2**53
"""Floats represent all whole numbers exactly up to this one."""

_MOST_SHOWN = 200
"""How many characters of a value are shown in a message."""

_SENT = (str, bytes, int, float, timedelta, type(None))
"""Types whose values can be sent to any process; other objects may hold a socket."""


class ArgumentError(Sendable, ValueError):
    """An argument that cannot be used.

    * `parameter`: its name, as the caller has written it.
    * `value`: what was given, or None where it is not to be shown.
    * `requirement`: what it must be, as in "parameter must {requirement}".
    * `advice`: why, or what to do instead.

    >>> ArgumentError("cost", -1, "be zero or more")
    ArgumentError('cost must be zero or more, not -1')
    >>> ArgumentError("cost", -1, "be zero or more").of("--cost").parameter
    '--cost'
    """

    def __init__(self, parameter: str, value: object, requirement: str, advice: str = "") -> None:
        self.parameter = parameter
        self.value = None if value is UNSHOWN else value
        self.requirement = requirement
        self.advice = advice
        self._shown = "" if value is UNSHOWN else f", not {_shown(value)}"
        super().__init__(self._message())

    def _message(self) -> str:
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.parameter} must {self.requirement}{self._shown}{advice}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._message()!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        make, arguments, facts = super().__reduce__()
        if not isinstance(self.value, _SENT):
            facts = {**facts, "value": repr(self.value)}
        return make, arguments, facts

    def of(self, parameter: str) -> ArgumentError:
        """Return the same error for the parameter or option that the value came from."""
        value = self.value if self._shown else UNSHOWN
        return ArgumentError(parameter, value, self.requirement, self.advice)


@contextmanager
def named(names: Mapping[str, str]) -> Iterator[None]:
    """Raise an ArgumentError of a parameter in `names` under the name that is given there.

    >>> with named({"url_or_client": "redis"}):
    ...     text("url_or_client", "")
    Traceback (most recent call last):
    limiters._support.validation.ArgumentError: redis must be a text that is not empty, not ''

    An advice such as parts=100 becomes --parts 100 where the names are options of a command.
    """
    try:
        yield
    except ArgumentError as error:
        parameter, bracket, part = error.parameter.partition(
            "["
        )  # a part of it, as in cost['tokens']
        if parameter not in names:
            raise
        error.advice = _as_options(error.advice, names)
        raise error.of(f"{names[parameter]}{bracket}{part}") from None


def _as_options(advice: str, names: Mapping[str, str]) -> str:
    for name, written in names.items():
        if written.startswith("--"):
            advice = re.sub(rf"(?<![\w:,.]){name}=(?=[\w.])", f"{written} ", advice)
    return advice


def seconds(name: str, value: object, *, zero: bool = False) -> float:
    """Return `value` in seconds: positive and finite, or also zero if `zero` is True."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    number = _number(name, value, "a duration in seconds (a number or a timedelta)")
    if number < 0 or (number == 0 and not zero):
        least = "zero or more" if zero else "more than zero"
        raise ArgumentError(name, value, f"be {least} seconds")
    return number


def optional_seconds(name: str, value: object, *, zero: bool = False) -> float | None:
    """Return `value` in seconds, or None if there is no such duration."""
    return None if value is None else seconds(name, value, zero=zero)


def in_seconds(duration: Seconds) -> float:
    """Return a `duration` that was checked as a number of seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def amount(
    name: str,
    value: object,
    *,
    zero: bool = False,
    most: float = MAX_AMOUNT,
    expected: str = "a number",
) -> float:
    """Return `value` as an amount of cost or capacity: positive and finite, or also zero. An error
    about something else than a number says that `expected` is."""
    number = _number(name, value, expected)
    if number < 0 or (number == 0 and not zero):
        raise ArgumentError(name, value, f"be {'zero or more' if zero else 'more than zero'}")
    if number > most:
        raise ArgumentError(name, value, f"be at most {most}")
    return number


def count(name: str, value: object) -> int:
    """Return `value` as a count of at least one."""
    number = whole(name, value)
    if number < 1:
        raise ArgumentError(name, value, "be at least 1")
    if number > sys.maxsize:
        raise ArgumentError(name, value, f"be at most {sys.maxsize}")
    return number


def whole(name: str, value: object) -> int:
    """Return `value` as a whole number of any size."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise ArgumentError(name, value, "be a whole number")
    return int(value)


def optional_count(name: str, value: object) -> int | None:
    """Return `value` as a count, or None if there is no such bound."""
    return None if value is None else count(name, value)


def flag(name: str, value: object) -> bool:
    """Return `value`, True or False; a text such as "false" would count as true and is refused."""
    if not isinstance(value, bool):
        raise ArgumentError(name, value, "be True or False")
    return value


def text(name: str, value: object) -> str:
    """Return `value` as a text that is not empty, and that can be sent and stored."""
    if not isinstance(value, str) or not value:
        raise ArgumentError(name, value, "be a text that is not empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        advice = "it has half of a pair of surrogates, or a byte that was no text"
        raise ArgumentError(name, value, "be a text that UTF-8 can write", advice) from None
    return value


def one_of(*texts: str) -> Callable[[str, object], str]:
    """Return a check that a value is one of `texts`.

    >>> one_of("send", "reject", "hold")("late", "never")
    Traceback (most recent call last):
    limiters._support.validation.ArgumentError: late must be 'send', 'reject' or 'hold', not 'never'
    """
    *others, last = map(repr, texts)

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in texts:
            raise ArgumentError(name, value, f"be {', '.join(others)} or {last}")
        return value

    return check


def instance_of(kind: type) -> Callable[[str, object], Any]:
    """Return a check that a value is a `kind`.

    >>> instance_of(timedelta)("delay", 5)
    Traceback (most recent call last):
    limiters._support.validation.ArgumentError: delay must be a timedelta, not 5
    """
    article = "an" if kind.__name__[0] in "AEIOU" else "a"

    def check(name: str, value: object) -> object:
        if not isinstance(value, kind):
            raise ArgumentError(name, value, f"be {article} {kind.__name__}")
        return value

    return check


def key_part(name: str, value: object) -> str:
    """Return `value` as a part of keys in Redis. Braces are refused: they decide which keys are
    stored on one node."""
    part = text(name, value)
    if set("{}") & set(part):
        advice = "in a cluster they would spread keys that belong together"
        raise ArgumentError(name, part, "be without braces", advice)
    return part


def path(name: str, value: object, what: str) -> Path:
    """Return `value` as the path of `what`. An empty text is refused."""
    written = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(written, str) or not written or "\0" in written:
        raise ArgumentError(name, value, f"be the path of {what}")
    return Path(written)


def function(name: str, value: object) -> None:
    """Refuse a `value` that cannot be called."""
    if not callable(value):
        raise ArgumentError(name, value, "be callable")


def _number(name: str, value: object, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (numbers.Real, Decimal)):
        raise ArgumentError(name, value, f"be {expected}")
    try:
        finite = math.isfinite(value)
    except ValueError:  # the signalling NaN of a Decimal
        finite = False
    except OverflowError:  # a whole number that no float can hold
        raise ArgumentError(name, UNSHOWN, "be finite", "it is too large for a float") from None
    if not finite:
        raise ArgumentError(name, value, "be finite")
    # Numbers of numpy are converted, since numpy adds its own types in other ways. Larger whole
    # numbers become floats, whose sum cannot be too large for a float.
    if isinstance(value, numbers.Integral) and abs(int(value)) <= _MOST_EXACT:
        return int(value)
    return float(value)


def _shown(value: object) -> str:
    """Return `value` for a message. A `repr` may be the user's code, or a number of any length."""
    try:
        if isinstance(value, str):
            text = repr(without_passwords(value))
        else:
            text = without_passwords(repr(value))
    except Exception:
        return f"an object of class {type(value).__qualname__}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."
