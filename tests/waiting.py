"""Waiting for what other threads bring about, rather than for time to pass."""

from __future__ import annotations

import threading
from collections.abc import Callable

from limiters import SharedResource
from limiters.events import Event

LONG = 20.0
"""Seconds after which a test gives up."""


class Heard:
    """Every event of a limiter, in order."""

    def __init__(self, limiter: SharedResource) -> None:
        self.events: list[Event] = []
        self._more = threading.Condition()
        limiter.add_listener(self._hear)

    def _hear(self, event: Event) -> None:
        with self._more:
            self.events.append(event)
            self._more.notify_all()

    @property
    def names(self) -> list[str]:
        """What was raised."""
        return [event.name for event in self.events]

    def of(self, name: str) -> list[float]:
        """The values of all events of that name."""
        return [event.value for event in self.events if event.name == name]

    def wait_for(self, name: str, *, value: float | None = None, times: int = 1) -> Event:
        """The event of that name, the `times`-th, once it has come."""
        with self._more:
            assert self._more.wait_for(lambda: len(self._found(name, value)) >= times, LONG), (
                f"no {name!r} came, but {self.events}"
            )
            return self._found(name, value)[times - 1]

    def _found(self, name: str, value: float | None) -> list[Event]:
        return [
            event
            for event in self.events
            if event.name == name and (value is None or event.value == value)
        ]


def until(condition: Callable[[], object]) -> None:
    """Waits for a condition that other threads bring about."""
    step = threading.Event()
    for _ in range(int(LONG / 0.002)):
        if condition():
            return
        step.wait(0.002)
    raise AssertionError("it never came about")
