"""Record events, and pass them to listeners later."""

from __future__ import annotations

from collections import deque

from limiters.events import Emitter, Event


class Recorder(Emitter):
    """An Emitter without a thread."""

    def __init__(self, owner: str, names: frozenset[str]) -> None:
        super().__init__(owner, names)
        self.events: list[Event] = []
        self._undelivered: deque[Event] = deque()

    def emit(self, name: str, value: float = 0, message: str = "", metadata: object = None) -> None:
        """Record an event. Listeners are called later: the caller is in the middle of a step."""
        event = Event(name, value, message, metadata)
        self.events.append(event)
        self._undelivered.append(event)

    def deliver(self) -> bool:
        """Call the listeners. Return whether there was anything to deliver."""
        some = bool(self._undelivered)
        while self._undelivered:
            self._hand(self._undelivered.popleft())
        return some

    def close(self, timeout: float = 1.0) -> None:
        """Deliver what is left."""
        self.deliver()

    def _deliver_from_now_on(self) -> None:
        """Do nothing: there is no thread to start."""
