"""Begins and ends the pauses of one engine: state, totals, demand and events together."""

from __future__ import annotations

from collections.abc import Callable

from dispatcher import events
from dispatcher._core.demand import Demand
from dispatcher._core.open_work import BatcherTotals
from dispatcher._core.pause import Pause


class Pausing:
    """Applies the rules of `pause`. Owned by the engine."""

    def __init__(
        self, pause: Pause, demand: Demand, totals: BatcherTotals, emit: Callable[..., None]
    ) -> None:
        self._pause = pause
        self._demand = demand
        self._totals = totals
        self._emit = emit

    @property
    def until(self) -> float | None:
        """When the present pause ends; None if there is none."""
        return self._pause.until

    def begin(self, now: float, length: float | None = None) -> None:
        """Raise nothing and ask for nothing, for `length` or for the pause time."""
        paused = self._pause.begin(now, length)
        if paused is not None:
            self._totals.pauses += 1
            self._emit(events.PAUSE, paused)
            self._demand.nothing()

    def end(self, now: float) -> None:
        """Go on, if there was a pause."""
        lasted = self._pause.end(now)
        if lasted is not None:
            self._emit(events.RESUME, lasted)

    def run_due(self, now: float) -> None:
        """End a pause that has lasted long enough."""
        if self._pause.over(now):
            self.end(now)

    def succeeded(self, raised_at: float) -> None:
        """Note the success of a batch that was raised at `raised_at`."""
        self._pause.succeeded(raised_at)
