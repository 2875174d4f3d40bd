"""The guard: the time for which spending counts in addition to a period.

A start is noted just before the callback is entered, and the thread may be switched out between the
two; CPython's switch interval is 5 ms. With long periods the guard of a shared limit is longer: its
windows are judged by several clocks, whose rates may differ by 0.1 %. docs/adr/0001-guard.md has
the alternatives, and benchmarks/capacity.py shows the worst window.
"""

from __future__ import annotations

GUARD_MS = 6
"""The guard in milliseconds; of a shared limit, the milliseconds for each second of the period, and
the smallest guard. All other constants about the guard, including those of the scripts in Redis,
follow from this one."""

GUARD = GUARD_MS / 1000
"""The guard in seconds, and as a part of the period."""


def guard_of(period: float, *, shared: bool) -> float:
    """Return the guard of a limit, in seconds.

    >>> guard_of(60.0, shared=False), guard_of(60.0, shared=True)
    (0.006, 0.36)
    """
    return max(GUARD, GUARD * period) if shared else GUARD
