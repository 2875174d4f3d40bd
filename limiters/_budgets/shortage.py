"""For how much of the time an instance could have spent more than it held. Pure."""

from __future__ import annotations

MAX_SHORTAGE = 0.5
"""The share of the time that counts at most as being short of capacity: so an instance asks for no
more than twice what it spent. One that could spend even more asks again a little later."""


class Shortage:
    """The time for which something had to wait for capacity. Not thread-safe."""

    def __init__(self) -> None:
        self.since: float | None = None
        """Since when something had to wait for capacity; None if nothing does."""
        self._lasted = 0.0
        """Seconds for which something had to, since the last request."""
        self._part = 0.0
        """That, as a share of the time between the last two requests."""

    def note(self, short: bool, now: float) -> None:
        """Whether something that could start has to wait for capacity, from now on."""
        if self.since is not None:
            self._lasted += now - self.since
        self.since = now if short else None

    def requested(self, interval: float, now: float) -> None:
        """A request is made, `interval` seconds after the last one."""
        self.note(self.since is not None, now)
        self._part = min(self._lasted / interval, MAX_SHORTAGE)
        self._lasted = 0.0

    def unspent(self, spent: float) -> float:
        """Return what could have been spent without waiting, in addition to `spent`."""
        return spent / (1 - self._part) - spent
