"""Leases made by hand, for tests of what is pure."""

from __future__ import annotations

import itertools
import time
from typing import Any

from dispatcher.timeline import Lease

_tokens = itertools.count(1)


def lease(name: str = "m", *, attempt: int = 1, remaining: float = 60.0, body: Any = None) -> Lease:
    """One that lives for `remaining` seconds from now."""
    token = next(_tokens)
    ends, place = time.monotonic() + remaining, (0, name.encode())
    return Lease(name, body, 0, 0, token, attempt, 1, ends, place)


def leases(count: int, **facts: Any) -> list[Lease]:
    """Leases of several messages."""
    return [lease(f"m{number}", **facts) for number in range(count)]
