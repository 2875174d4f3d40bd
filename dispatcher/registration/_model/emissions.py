"""Emitted registrations, for a consumer that asks again: by number, and parents before children."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from dispatcher.registration._model.release import Registration
from dispatcher.registration._model.written import parent_of, registration_of


class Stored(NamedTuple):
    """A stored entity: the sequence number of its last emission, and its record."""

    sequence: int
    entity: str
    record: str


class Emission(NamedTuple):
    """A registration that was emitted.

    `sequence` is the mark to save once this emission and all before it are handled: it covers no
    later one.
    """

    sequence: int
    registration: Registration


def in_order(stored: Iterable[Stored], since: int) -> list[Emission]:
    """Return emissions by sequence number, except that an ancestor goes before its descendants: an
    updated ancestor has a higher number than children that were emitted earlier.

    >>> rows = [Stored(2, "meter", '["house",null]'), Stored(3, "house", "[null,7]")]
    >>> [(one.sequence, one.registration.entity) for one in in_order(rows, 1)]
    [(1, 'house'), (3, 'meter')]
    """
    latest = {one.entity: one for one in sorted(stored)}
    rows = {one.entity: one for one in sorted(latest.values())}
    emissions: list[Emission] = []
    done: set[str] = set()
    left, covered = deque(rows.values()), since
    for entity in rows:
        for one in _path_down(entity, rows, done):
            done.add(one)
            # A mark covers all numbers up to it, so it grows when the lowest remaining emission is
            # handled.
            while left and left[0].entity in done:
                covered = left.popleft().sequence
            emissions.append(Emission(covered, registration_of(one, rows[one].record)))
    return emissions


def _path_down(entity: str, rows: dict[str, Stored], done: set[str]) -> list[str]:
    """Return `entity` and its ancestors that are still to be emitted, the highest first."""
    path: dict[str, None] = {}
    above: str | None = entity
    while above in rows and above not in done and above not in path:
        path[above] = None
        above = parent_of(rows[above].record)
    return list(reversed(path))
