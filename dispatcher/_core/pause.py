"""How long a Batcher pauses. Pure: the engine passes the time."""

from __future__ import annotations

import logging

from dispatcher._retry import Wait, call_state
from limiters._support.rate_limited_log import RateLimitedLog
from limiters._support.validation import ArgumentError, Seconds, in_seconds, seconds

FALLBACK = 0.5
"""Seconds of a pause whose strategy raises."""


def checked_pause_time(name: str, value: object) -> float | Wait:
    """Return `value` as seconds, or as the wait strategy that it is."""
    if isinstance(value, type):
        advice = "such as 0.5, or wait_exponential(max=30)"
        raise ArgumentError(name, value, "be seconds or a tenacity wait strategy", advice)
    return value if callable(value) else seconds(name, value)


class Pause:
    """At most one pause at a time. A second pause does not prolong it, unless it has a length and
    ends later. With a wait strategy, each further pause without a success in between is one more
    attempt. The attempts begin again after a success of a batch that was raised after the last
    pause."""

    def __init__(self, pause_time: Seconds | Wait) -> None:
        self._wait = pause_time if callable(pause_time) else None
        self._fixed = 0.0 if callable(pause_time) else in_seconds(pause_time)
        self._damped = RateLimitedLog(logging.getLogger("dispatcher.batcher"))
        self._in_a_row = 0
        self._began = 0.0
        """The time at which the first of the pauses in a row began."""
        self._paused_at = 0.0
        self._ended = 0.0
        self.until: float | None = None
        """When the present pause ends; None if there is none."""

    def begin(self, now: float, length: float | None) -> float | None:
        """Pause for `length`, or as long as the pause time says. Return how long, or None if that
        changed nothing."""
        if self.until is not None and length is None:
            return None
        if length is None:
            self._in_a_row += 1
            length = self._strategic(now)
        until = now + length
        if self.until is not None and until <= self.until:
            return None
        if self.until is None:
            self._paused_at = now
            if self._in_a_row <= 1:
                self._began = now
        self.until = until
        return length

    def end(self, now: float) -> float | None:
        """Resume. Return how long the pause has lasted, or None if there was none."""
        if self.until is None:
            return None
        self.until = None
        self._ended = now
        return now - self._paused_at

    def over(self, now: float) -> bool:
        """Whether the present pause has lasted long enough."""
        return self.until is not None and now >= self.until

    def succeeded(self, raised_at: float) -> None:
        """Note the success of a batch that was raised at `raised_at`."""
        if self._in_a_row and raised_at >= self._ended and self.until is None:
            self._in_a_row = 0

    def _strategic(self, now: float) -> float:
        if self._wait is None:
            return self._fixed
        elapsed = now - self._began if self._in_a_row > 1 else 0.0
        try:
            return max(0.0, float(self._wait(call_state(self._in_a_row, elapsed))))
        except BaseException as error:  # sys.exit() must not end a thread of the Batcher
            self._damped.log(
                logging.ERROR,
                "the strategy given as pause_time raised; pausing for %g s",
                FALLBACK,
                exc_info=error,
                extra={"happening": "pause-time-raised", "error": type(error).__name__},
            )
            return FALLBACK
