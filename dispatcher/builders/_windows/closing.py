"""The two rules for closing an event-time batch.

A rule defines how long a window is, when it is due, which messages are refused, and where two
measurements of one key split it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from dispatcher.builders._times import TimeSpan, middle
from dispatcher.builders._windows.windows import Window


class ClosingRule(Protocol):
    """The interface of a closing rule."""

    name: ClassVar[str]
    compares_clocks: ClassVar[bool]
    """Whether event times and arrivals are from the same clock, and so of the same kind. Only then
    can a message be too late, or make a batch due by being added."""
    keeps_its_end: ClassVar[bool]
    """Whether the later part of a split batch keeps the end of the whole."""
    window: TimeSpan
    memory: TimeSpan
    """How long after its batch closed a message is remembered, by default."""

    @property
    def spans(self) -> list[float]:
        """The arguments it was created with, in seconds."""
        ...

    def refuses(self, time: Any, now: Any) -> bool:
        """Whether a message with this event time is too late, or too early."""
        ...

    def due(self, window: Window) -> Any:
        """Return when `window` closes, given its present content."""
        ...

    def due_of(self, arrival: Any, end: Any) -> Any:
        """Return when a window closes whose first message arrived at `arrival`."""
        ...

    def cut(self, early: Any, late: Any) -> Any:
        """Return where two times of one key split their batch: earlier messages stay in the first
        part."""
        ...


class AfterTimeout:
    """Laws E3 and E5: `timeout` after the earliest arrival among the members of the batch."""

    name: ClassVar = "timeout"
    compares_clocks: ClassVar = False
    keeps_its_end: ClassVar = False

    def __init__(self, window: float, timeout: float) -> None:
        self.window = TimeSpan(window)
        self.memory = TimeSpan(window + timeout)
        self._timeout = TimeSpan(timeout)

    @property
    def spans(self) -> list[float]:
        return [self.window.seconds, self._timeout.seconds]

    def refuses(self, time: Any, now: Any) -> bool:
        """Refuse nothing: a late message opens a batch of its own."""
        return False

    def due(self, window: Window) -> Any:
        return self._timeout.after(min(window.arrivals))

    def due_of(self, arrival: Any, end: Any) -> Any:
        return self._timeout.after(arrival)

    def cut(self, early: Any, late: Any) -> Any:
        """Split at the later time."""
        return late


class AfterEnd:
    """Law E7: when the window's end is `delivery_jitter` ago. A message that comes when its window
    may be closed, or from too far ahead, is dropped."""

    name: ClassVar = "event time"
    compares_clocks: ClassVar = True
    keeps_its_end: ClassVar = True

    def __init__(
        self, event_jitter: float, delivery_jitter: float, message_leap_limit: float
    ) -> None:
        self.window = TimeSpan(event_jitter)
        self.memory = TimeSpan(event_jitter + delivery_jitter)
        self._delivery = TimeSpan(delivery_jitter)
        self._leap = TimeSpan(message_leap_limit)

    @property
    def spans(self) -> list[float]:
        return [self.window.seconds, self._delivery.seconds, self._leap.seconds]

    def refuses(self, time: Any, now: Any) -> bool:
        return bool(time < self._delivery.before(now) or time > self._leap.after(now))

    def due(self, window: Window) -> Any:
        return self._delivery.after(window.end)

    def due_of(self, arrival: Any, end: Any) -> Any:
        return self._delivery.after(end)

    def cut(self, early: Any, late: Any) -> Any:
        """Split in the middle between the two times."""
        return middle(early, late)


RULES: dict[str, Callable[..., ClosingRule]] = {
    AfterTimeout.name: AfterTimeout,
    AfterEnd.name: AfterEnd,
}
