"""A change in several steps that readers look for, instead of taking a lock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SPINS = 100
"""How often a reader looks again with no more than a yield in between."""

STEP = 0.0002
"""How long it sleeps then; the writer is a thread that the system may not run for a while."""

MOST_LOOKS = 10_000
"""How often a reader looks, which takes at least two seconds. It is used up only by a signal
handler that has interrupted the writer itself, as may happen with an InlineBatcher: that one gets
what is there."""


class Changing:
    """One thread writes, in `with changing:`; any number read."""

    __slots__ = ("version",)

    def __init__(self) -> None:
        self.version = 0
        """Odd while the change goes on."""

    def __enter__(self) -> None:
        self.version += 1

    def __exit__(self, *error: object) -> None:
        self.version += 1

    def look(self, read: Callable[[], T]) -> T:
        """What `read` gives at a moment at which nothing is being changed."""
        for looks in range(MOST_LOOKS):
            version = self.version
            found = read()
            if version == self.version and not version & 1:
                break
            time.sleep(0 if looks < SPINS else STEP)
        return found
