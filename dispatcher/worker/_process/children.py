"""When a process that ended is started again, and when all is given up. Pure.

What ends before any of them was ever ready would do so again: the handler cannot be imported, the
port is taken, the topic is not there. That ends the supervisor, with the same exit code.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

FIRST, LONGEST = 0.5, 30.0
"""Seconds of back-off, doubled each time."""

STEADY = 60.0
"""Seconds after which a process that has run is started again as if for the first time."""

SILENCE = 30.0
"""Seconds after which a process that says nothing is killed; one that ends, after its drain time
and these."""


class RestartVerdict(enum.Enum):
    """What to do with a process that ended."""

    AGAIN = enum.auto()
    GIVE_UP = enum.auto()


@dataclass(slots=True)
class Child:
    """What is known of one of them. Times are those of one clock."""

    started: float = 0.0
    heard: float | None = None
    """None before the first sign of life: importing a handler may take as long as it takes."""
    ready: bool = False
    patience: float = SILENCE
    """For how many seconds it may say nothing."""
    failures: int = 0
    restart_at: float = 0.0

    def start(self, now: float) -> None:
        """It was started."""
        self.started, self.heard, self.ready = now, None, False
        self.patience = SILENCE

    def hear(self, now: float, *, ready: bool) -> None:
        """It gave a sign of life."""
        self.heard = now
        self.ready = self.ready or ready

    def drains(self, drain_time: float) -> None:
        """It said that it ends, which takes so long, and says nothing meanwhile."""
        self.patience = drain_time + SILENCE

    def is_silent(self, now: float) -> bool:
        """Whether it hangs: it is to be killed."""
        return self.heard is not None and now - self.heard > self.patience

    def ended(self, now: float, *, any_was_ready: bool) -> RestartVerdict:
        """It ended by itself. `restart_at` says when it is started again.

        >>> child = Child()
        >>> child.start(0.0); child.hear(1.0, ready=True)
        >>> child.ended(2.0, any_was_ready=True), child.restart_at
        (<RestartVerdict.AGAIN: 1>, 2.5)
        """
        if not any_was_ready:
            return RestartVerdict.GIVE_UP
        if now - self.started >= STEADY:
            self.failures = 0
        self.restart_at = now + min(LONGEST, FIRST * 2**self.failures)
        self.failures += 1
        return RestartVerdict.AGAIN
