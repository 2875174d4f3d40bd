"""Names of the bounds of a limit, wherever people see them: in tables, metrics and logs."""

from __future__ import annotations

from collections.abc import Iterable

from limiters._support import durations


def bound_names(bounds: Iterable[tuple[str, float]]) -> tuple[str, ...]:
    """Return the name of each bound, given its dimension and the seconds of its window: that of its
    dimension, with the window from the second one of a dimension on.

    >>> bound_names([("requests", 60), ("requests", 0.1), ("tokens", 60)])
    ('requests', 'requests/0.1s', 'tokens')
    """
    names: list[str] = []
    for dimension, seconds in bounds:
        shorter = f"{dimension}/{durations.written(seconds)}"
        names.append(shorter if dimension in names else dimension)
    return tuple(names)
