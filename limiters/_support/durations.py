"""Durations as people write them. Pure."""

from __future__ import annotations

import math
import re
from fractions import Fraction

from limiters._plain_numbers import exact

UNITS = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3_600),
    "d": Fraction(86_400),
}

EXAMPLES = "90, 90s, 5m, 1h30m, 1d, 250ms"

_NUMBER = r"\d{1,400}(?:\.\d{1,400})?(?:[eE][+-]?\d{1,3})?"
"""The number of digits is bounded, so that it takes no time to read a number."""

_PLAIN = r"\d{1,400}(?:\.\d{1,400})?"
"""A number without an exponent: with one, a duration has a unit."""

_PART = re.compile(rf"({_NUMBER})(ms|s|m|h|d)")


def read_seconds(text: str) -> float | None:
    """Return the seconds of a duration; None if it is none. A number without a unit is in seconds.

    >>> read_seconds("1h30m"), read_seconds("0.5"), read_seconds("9ms"), read_seconds("soon")
    (5400.0, 0.5, 0.009, None)
    """
    if re.fullmatch(_PLAIN, text):
        parts = [(text, "s")]
    elif re.fullmatch(f"({_PART.pattern})+", text):
        parts = _PART.findall(text)
    else:
        return None
    try:
        # Only the sum is rounded, so that what `written` writes is read as the same number.
        return float(sum(Fraction(number) * UNITS[unit] for number, unit in parts))
    except OverflowError:
        return math.inf


def written(seconds: float) -> str:
    """Return a duration in seconds, as it can be read again: windows have such names.

    >>> written(60.0), written(0.25), written(86_400)
    ('60s', '0.25s', '86400s')
    """
    return f"{exact(seconds)}s"
