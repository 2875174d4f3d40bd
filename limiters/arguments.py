"""How constructor arguments are checked: a ValueError that names the parameter and the value."""

from __future__ import annotations

import math
from datetime import timedelta

Seconds = float | timedelta
"""A duration as users may write it: seconds, or a timedelta."""


def seconds(name: str, value: object, *, zero: bool = False) -> float:
    """`value` as seconds: positive and finite, or also zero where `zero` says so."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    number = _number(name, value, "a duration in seconds (a number or a timedelta)")
    if number < 0 or (number == 0 and not zero):
        least = "zero or more" if zero else "more than zero"
        raise ValueError(f"{name} must be {least} seconds, not {value!r}")
    return number


def optional_seconds(name: str, value: object, *, zero: bool = False) -> float | None:
    """The same, where None means that there is no such duration."""
    return None if value is None else seconds(name, value, zero=zero)


def amount(name: str, value: object, *, zero: bool = False) -> float:
    """`value` as an amount of cost or capacity: positive and finite, or also zero."""
    number = _number(name, value, "a number")
    if number < 0 or (number == 0 and not zero):
        least = "zero or more" if zero else "more than zero"
        raise ValueError(f"{name} must be {least}, not {value!r}")
    return number


def count(name: str, value: object) -> int:
    """`value` as a count of at least one."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value!r}")
    return value


def optional_count(name: str, value: object) -> int | None:
    """The same, where None means that there is no such bound."""
    return None if value is None else count(name, value)


def text(name: str, value: object) -> str:
    """`value` as a text that says something."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text that is not empty, not {value!r}")
    return value


def key_part(name: str, value: object) -> str:
    """`value` as a part of keys in Redis, in which braces say what stays together."""
    part = text(name, value)
    if set("{}") & set(part):
        raise ValueError(
            f"{name} must be without braces, not {part!r}: in a cluster they would spread keys "
            "that belong together"
        )
    return part


def function(name: str, value: object) -> None:
    """Refuses a `value` that cannot be called."""
    if not callable(value):
        raise ValueError(f"{name} must be callable, not {value!r}")


def _number(name: str, value: object, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} must be {expected}, not {value!r}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value!r}")
    return value
