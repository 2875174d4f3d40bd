"""Reports of a gate about what it did, and their sums."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

HELD = "held"
RELEASED = "released"
DISPLACED = "displaced"
DROPPED = "dropped"
REGISTERED = "registered"
UPDATED = "updated"
DEREGISTERED = "deregistered"
CORRUPT = "corrupt"
ERROR = "error"

GATE_EVENTS = frozenset(
    {HELD, RELEASED, DISPLACED, DROPPED, REGISTERED, UPDATED, DEREGISTERED, CORRUPT, ERROR}
)


class Report(NamedTuple):
    """A change of what is held, or of an entity; the `metadata` of an event.

    `name` is the event's; `reason` says why something was displaced or dropped.
    """

    name: str
    entity: str
    registrations: int = 0
    metadata: int = 0
    telemetry: int = 0
    reason: str = ""

    @property
    def total(self) -> int:
        """Number of messages and registrations in the report."""
        return self.registrations + self.metadata + self.telemetry


class Amounts(NamedTuple):
    """Numbers of registrations, metadata and telemetry messages."""

    registrations: int = 0
    metadata: int = 0
    telemetry: int = 0


class Counts:
    """Sums of reports, by name. What was held is always the sum of what was released, displaced,
    dropped, found corrupt, and what is held still. Not thread-safe.

    >>> counts = Counts()
    >>> counts.add([Report(HELD, "meter", telemetry=1)])
    >>> counts.read()["held"].telemetry
    1
    """

    def __init__(self) -> None:
        self._sums = {name: [0, 0, 0] for name in GATE_EVENTS}

    def add(self, reports: Iterable[Report]) -> None:
        for report in reports:
            sums = self._sums[report.name]
            sums[0] += report.registrations
            sums[1] += report.metadata
            sums[2] += report.telemetry

    def unaccounted(self, waiting: Amounts, found_lost: int) -> list[int]:
        """Return what was held and neither waits nor has come to an end. `found_lost` of the
        corrupt registrations were in a store, and not held."""
        held, *ends = (self._sums[name] for name in (HELD, RELEASED, DISPLACED, DROPPED, CORRUPT))
        found = Amounts(found_lost)
        return [
            one + in_store - left - sum(gone)
            for one, in_store, left, *gone in zip(held, found, waiting, *ends, strict=True)
        ]

    def read(self) -> dict[str, Amounts]:
        """Return a copy of the sums."""
        return {name: Amounts(*sums) for name, sums in self._sums.items()}
