"""Lets readers detect a change that has several steps, instead of taking a lock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SPINS = 100
"""How often a reader looks again with only a yield in between."""

STEP = 0.0002
"""Seconds that a reader sleeps before it looks again later on: the system may not run the writer's
thread for a while."""

MOST_LOOKS = 10_000
"""How often a reader looks, which takes at least two seconds. Only a signal handler that has
interrupted the writer itself looks that often, as may happen with an InlineBatcher: it returns the
values that it finds."""


class Changing:
    """One thread writes, inside `with changing:`; any number of threads read."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0
        """This number is odd during a change."""

    def __enter__(self) -> None:
        self.version += 1

    def __exit__(self, *error: object) -> None:
        self.version += 1

    def look(self, read: Callable[[], T]) -> T:
        """Return what `read` returns at a moment at which nothing is being changed."""
        for looks in range(MOST_LOOKS):
            version = self.version
            found = read()
            if version == self.version and not version & 1:
                break
            time.sleep(0 if looks < SPINS else STEP)
        return found
