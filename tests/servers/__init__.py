"""Real Redis servers to test against: single, Sentinel, Cluster, TLS, and a bad network."""

from __future__ import annotations

import time
from collections.abc import Callable

_LOOK_AGAIN = 0.01


def wait_until(condition: Callable[[], object], *, within: float = 30.0) -> None:
    """Returns as soon as `condition()` holds; fails if it does not `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"{condition} did not hold, not within {within} s"
        time.sleep(_LOOK_AGAIN)
