"""Waiting for what other threads bring about, rather than for time to pass."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from limiters import SharedResource
from limiters.errors import LeaseManagerError
from limiters.events import Event
from tests.kinds import POLL

LONG = 20.0
"""Seconds after which a test gives up."""

SOONEST, LATEST = 0.002, POLL
"""Seconds until it is looked again, at first and after a while; later if a look takes long."""


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
        """The error that was raised."""
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


def refusal(limiter: SharedResource) -> str:
    """Return the error of the requests of a limiter that is not provisioned, once there was one.
    Waiting until it is provisioned would raise it as well, but only at the end."""
    said = ""

    def was_refused() -> bool:
        nonlocal said
        try:
            limiter.wait_until_provisioned(0)
        except LeaseManagerError as error:
            said = str(error)
        return "has not answered" not in said and bool(said)

    until(was_refused)
    return said


def until(condition: Callable[[], object], *, within: float = 60.0) -> None:
    """Waits for a condition that other threads or processes bring about; fails if it does not
    hold `within` seconds.

    A condition may search all processes, or read a file of some megabytes: what it waits for needs
    the processor, too, so that looking takes a fifth of a core at most."""
    deadline = time.monotonic() + within
    wait = SOONEST
    while True:
        began = time.thread_time()
        if condition():
            return
        assert time.monotonic() < deadline, f"{condition} did not hold, not within {within} s"
        _sleep(max(wait, 4 * (time.thread_time() - began)))
        wait = min(LATEST, wait * 1.25)


def _sleep(seconds: float) -> None:
    """In pieces that a test without the marker `wallclock` may sleep, too."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, POLL))
