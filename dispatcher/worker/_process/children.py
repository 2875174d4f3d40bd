"""Decide when a process that ended is restarted, and when the supervisor gives up. Pure.

If a process ends before any was ever ready, it would do so again: the handler cannot be imported,
the port is taken, the topic does not exist. That ends the supervisor, with the same exit code.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

FIRST, LONGEST = 0.5, 30.0
"""First and longest back-off in seconds; it doubles each time."""

STEADY = 60.0
"""Seconds of running after which the back-off of a process starts from the beginning."""

SILENCE = 30.0
"""Seconds without a sign of life after which a process is killed; one that is stopping gets its
drain time in addition."""


class RestartVerdict(enum.Enum):
    """The decision about a process that ended."""

    AGAIN = enum.auto()
    GIVE_UP = enum.auto()


@dataclass(slots=True)
class Child:
    """The state of one process. Times are those of one clock."""

    started: float = 0.0
    heard: float | None = None
    """Time of the last sign of life; None before the first, since importing a handler may take
    long."""
    ready: bool = False
    patience: float = SILENCE
    """For how many seconds it may give no sign of life."""
    failures: int = 0
    restart_at: float = 0.0

    def start(self, now: float) -> None:
        """Note that it was started."""
        self.started, self.heard, self.ready = now, None, False
        self.patience = SILENCE

    def hear(self, now: float, *, ready: bool) -> None:
        """Note a sign of life."""
        self.heard = now
        self.ready = self.ready or ready

    def drains(self, drain_time: float) -> None:
        """Note that it stops, which may take `drain_time` seconds without a sign of life."""
        self.patience = drain_time + SILENCE

    def is_silent(self, now: float) -> bool:
        """Whether it hangs, and is to be killed."""
        return self.heard is not None and now - self.heard > self.patience

    def ended(self, now: float, *, any_was_ready: bool) -> RestartVerdict:
        """Decide about a process that ended by itself. `restart_at` is when it is to be restarted.

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
