"""Durations as people write them. Pure."""

from __future__ import annotations

import re

from limiters._plain_numbers import plain

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}

EXAMPLES = "90, 90s, 5m, 1h30m, 2d, 250ms"

_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def read_seconds(text: str) -> float | None:
    """Return the seconds of a duration; None if it is none. A number without a unit is in seconds.

    >>> read_seconds("1h30m"), read_seconds("0.5"), read_seconds("250ms"), read_seconds("soon")
    (5400.0, 0.5, 0.25, None)
    """
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if re.fullmatch(f"({_PART.pattern})+", text):
        return sum(float(number) * UNITS[unit] for number, unit in _PART.findall(text))
    return None


def written(seconds: float) -> str:
    """Return a duration in seconds, as it can be read again: windows have such names.

    >>> written(60.0), written(0.25), written(86_400)
    ('60s', '0.25s', '86400s')
    """
    return f"{plain(seconds)}s"
