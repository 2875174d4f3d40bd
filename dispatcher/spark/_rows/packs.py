"""Puts the units of each subject into packs, each of which is sent with one call. Pure.

Packs are made of all units, including those that were acknowledged before a replay, so that a
replay has the same packs; then the acknowledged units are left out.

Late rows are never in one batch with others. The late rows of the subjects of a pack, and the rows
before them, make a batch of their own, which is sent before the batch with the rest of these
subjects. A subject that is larger than a batch is sent alone, unit after unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dispatcher.spark._ledger.division import Division
from dispatcher.spark._rows.cutting import Unit
from dispatcher.spark._rows.packing import Packing, Size
from limiters._costs import AnyCost


class Settled(Protocol):
    """The settlements of one call of a handler."""

    def end(self) -> Mapping[str, float]:
        """End it. Return by how much the call costs more than it was charged, in each dimension."""
        ...


@dataclass(slots=True, eq=False)
class Pack:
    """Units that are sent with one call and acknowledged together."""

    units: list[Unit]
    key: bytes | None = None
    """The sequence whose packs the Batcher keeps in order; None: the sequence has no other pack."""
    previous: Pack | None = None
    """The pack before it of that sequence, which must be acknowledged first."""
    waits_for: Pack | None = None
    """A pack that must be acknowledged before this one may be enqueued."""
    name: bytes = b""
    """The name in the ledger, which is the same in each replay."""
    is_rest: bool = False
    """Whether some of its units were acknowledged before."""
    sent: bool = False
    """Whether the handler has taken it: only the acknowledgement is missing."""
    is_divided: bool = False
    """Whether its units are sent one by one, since it failed for good as a whole."""
    lengths: list[int] = field(default_factory=list)
    """The number of rows of each unit in the last call of the handler."""
    charge: AnyCost = 0.0
    """The cost of each attempt, including the batch's own cost."""
    factors: Mapping[str, float] = field(default_factory=dict)
    """The factors by which the cost of rows was multiplied, in dimensions that are learned."""
    settlement: Settled | None = None
    """The settlements of the present call of the handler, if it can settle."""
    waiting_since: float = 0.0
    begun_at: float = 0.0

    @property
    def left(self) -> list[Unit]:
        """The units that are still to be handled, at least in part."""
        return [unit for unit in self.units if unit.is_left]

    @property
    def cost(self) -> AnyCost:
        """The cost of the units that are still to be handled."""
        return sum(unit.cost for unit in self.left)

    @property
    def acknowledged(self) -> bool:
        """Whether all of its units are acknowledged, also if they were sent one by one."""
        return all(unit.acknowledged for unit in self.units)


def singly(units: Sequence[Unit], *, in_order: bool = True) -> Iterator[Pack]:
    """Return a pack for each unit of a sequence that is not acknowledged."""
    previous: Pack | None = None
    for unit in units:
        if unit.acknowledged:
            continue
        pack = Pack([unit])
        if in_order:
            pack.key, pack.previous, previous = unit.sequence, previous, pack
        yield pack


class Packer:
    """Packs the units of a task's subjects by a `division`; None: each unit by itself."""

    def __init__(self, division: Division | None, *, in_order: bool) -> None:
        self._in_order = in_order
        self._packing: Packing[tuple[Sequence[Unit], int]] | None = None
        if division is not None:
            most = (division.most_rows, *division.most_cost.sizes)
            self._packing = Packing((*most, *most))
            self._sizes_of = division.most_cost.sizes_of

    def add(self, units: Sequence[Unit]) -> Iterator[Pack]:
        """Add all units of the next subject, and return the packs that are closed by that."""
        packing = self._packing
        if packing is not None:
            early = _early(units)
            parts = units[:early], units[early:]
            size = (*self._size(parts[0]), *self._size(parts[1]))
            if packing.fits(size) and all(map(_is_one_batch, parts)):
                for subjects in packing.add((units, early), size):
                    yield from _packs_of(subjects)
                return
        yield from singly(units, in_order=self._in_order)

    def rest(self) -> Iterator[Pack]:
        """Return the packs that are still open."""
        if self._packing is not None:
            for subjects in self._packing.rest():
                yield from _packs_of(subjects)

    def _size(self, units: Sequence[Unit]) -> Size:
        cost: AnyCost = sum(unit.cost for unit in units if not unit.is_rest)
        return sum(unit.size for unit in units), *self._sizes_of(cost)


def _early(units: Sequence[Unit]) -> int:
    """Return the number of a subject's units up to and including its last late one."""
    late = [place for place, unit in enumerate(units) if unit.late and not unit.refused]
    return late[-1] + 1 if late else 0


def _is_one_batch(units: Sequence[Unit]) -> bool:
    return sum(not (unit.refused or unit.is_rest) for unit in units) <= 1


def _packs_of(subjects: list[tuple[Sequence[Unit], int]]) -> Iterator[Pack]:
    first = _pack_of([unit for units, early in subjects for unit in units[:early]])
    if first is not None:
        yield first
    rest = _pack_of([unit for units, early in subjects for unit in units[early:]])
    if rest is not None:
        rest.waits_for = first
        yield rest


def _pack_of(units: list[Unit]) -> Pack | None:
    left = [unit for unit in units if not unit.acknowledged]
    if not left:
        return None
    name = b"%d %s" % (units[0].start, units[0].sequence)
    return Pack(left, name=name, is_rest=len(left) < len(units))
