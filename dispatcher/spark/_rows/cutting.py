"""Cuts the rows of a sequence into units, which are sent alone or in a pack with others. Pure.

All rows are cut, including those that were acknowledged before a replay, so that a replay has the
same units. Acknowledged units are marked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dispatcher.builders import SubjectBuilder
from dispatcher.spark._ledger.entry import LedgerEntry, Time
from dispatcher.spark._ledger.proof import Proof
from dispatcher.spark._most_cost import UNBOUNDED, MostCost
from dispatcher.spark._rows.formats import Format, Rows
from dispatcher.spark._rows.groups import RowGroup, Source
from dispatcher.spark._rows.next_fit import next_fit
from dispatcher.spark._rows.row_costs import RowCosts
from limiters._costs import AnyCost

if TYPE_CHECKING:
    import numpy as np

NO_SUBJECT = "it has no subject"
NO_TIME = "it has no time"
LATE = "it is late: what came after it was sent already"


def too_expensive(cost: float, most: float, dimension: str) -> str:
    """Return why a row is refused that costs more than all rows of a batch may.

    >>> print(too_expensive(9_000.0, 5_000.0, "tokens").partition(":")[0])
    it costs 9,000 of tokens, and the rows of a batch may cost 5,000 of tokens
    """
    of = f" of {dimension}" if dimension else ""
    return (
        f"it costs {cost:,g}{of}, and the rows of a batch may cost {most:,g}{of}: max_batch_cost, "
        "or the largest cost that the limit can grant, less batch_cost"
    )


Costs = Callable[[RowGroup, Rows], RowCosts]
"""Returns the costs of the rows of a group."""


@dataclass(slots=True, kw_only=True)
class Unit:
    """Rows of one sequence that are sent together, and the entry to store once they are sent."""

    sequence: bytes
    subject: Any
    rows: Rows
    """The rows for the first call of the handler, which may change them; None after that call."""
    source: Source
    size: int
    first: Time | None
    last: Time | None
    cost: AnyCost
    late: bool
    refused: str
    """Why it is not sent; empty if it is."""
    start: int
    """The number of rows of the sequence that come before it."""
    entry: LedgerEntry
    of_subjects: dict[bytes, LedgerEntry] = field(default_factory=dict)
    """The entries to store for its subjects, in a lane where rows are late by subject."""
    acknowledged: bool = False
    is_rest: bool = False
    """Whether it is the rest of a unit whose first rows were acknowledged when rows were cut in
    another way. The unit before it holds those."""
    in_dead_letters: bool = False
    """Whether it was refused, and dead letters have taken it."""
    records: Sequence[int] | None = None
    """The places of its records that are still to be sent, after others were taken; None: all."""
    costs: RowCosts | None = None
    """The costs of all rows of its group. None if a row is a batch by itself: the row has a cost,
    and its messages have none."""

    @property
    def is_left(self) -> bool:
        """Whether some of it is still to be handled."""
        return not self.refused and (self.records is None or len(self.records) > 0)

    def cost_of(self, numbers: Sequence[int]) -> AnyCost:
        """Return the estimated cost of the records at `numbers` among those that are still to be
        sent."""
        assert self.costs is not None
        records = self.records
        places = [self.source.places[one if records is None else records[one]] for one in numbers]
        return self.costs.of(places)

    def leave_last(self, count: int, rows: Format) -> None:
        """Keep only its last `count` rows."""
        if self.rows is not None:
            self.rows = rows.part(self.rows, self.size - count, self.size)
        self.source = self.source.last(count)


@dataclass(frozen=True, slots=True)
class Cut:
    """The rules by which a sequence is cut. Plain values.

    * `each`: every row is a batch of its own.
    * `same_subject`: a sequence is a subject, and rows without a subject cannot be sent; else it
      is a lane.
    * `in_order`: rows have a time; else they are sent as they come, and a batch waits for no other.
    * `late_by_subject`: rows of a lane are late if they are older than the latest sent row of
      their subject, rather than of the lane.
    """

    most_rows: int
    most_cost: MostCost = UNBOUNDED
    together_within: float = 0
    same_subject: bool = True
    in_order: bool = True
    each: bool = False
    refuse_late: bool = False
    late_by_subject: bool = False


Entries = Mapping[Any, LedgerEntry]
"""The entries of the subjects of a lane."""
_NO_ENTRIES: Entries = {}


def name_of(sequence: Any) -> bytes:
    """Return the name of a sequence in Redis. None has a name that differs from that of any value.

    >>> name_of("a"), name_of(None), name_of(5)
    (b'=a', b'-', b'=5')
    """
    if sequence is None:
        return b"-"
    return b"=" + (sequence if isinstance(sequence, bytes) else str(sequence).encode())


def name_in_lane(lane: Any, subject: Any) -> bytes:
    """Return the name in Redis of a subject of a lane. It differs from the names of all sequences,
    and of all other subjects of any lane.

    >>> name_in_lane("pumps", "a")
    b'@6=pumps =a'
    """
    named = name_of(lane)
    return b"@%d%s %s" % (len(named), named, name_of(subject))


def units_of(
    group: RowGroup,
    cut: Cut,
    entry: LedgerEntry,
    batch: int,
    costs: Costs,
    rows: Format,
    entries: Entries = _NO_ENTRIES,
) -> Iterator[Unit]:
    """Return the units of `group` in micro-batch `batch`. `entry` is that of the sequence,
    `entries` are those of the subjects of a lane. Acknowledged units have no rows.

    OtherRowsError if the entry's acknowledged rows of this micro-batch are others.
    """
    together = rows.together(group.parts)
    before, acknowledged = entry.sent_before(batch), entry.acknowledged(batch)
    until, start, name = before, 0, name_of(group.sequence)
    of_rows = costs(group, together)
    pieces = _Pieces(group, cut, before, of_rows)
    reach = None
    if cut.late_by_subject:
        reach = pieces.by_subject = _Reach(group, batch, entries)
    proof = Proof(_joined(group.hashes))
    for whole in pieces.all():
        if whole.first is not None and whole.last is not None and not whole.refused:
            reached = whole.first if cut.each else whole.last
            until = reached if until is None else max(until, reached)
        for piece in pieces.parted(whole, acknowledged - start):
            end = start + len(piece.places)
            proof.add(piece.places)
            if end == acknowledged:
                _check(proof, entry)
            left = end > acknowledged
            yield Unit(
                sequence=name,
                subject=group.sequence,
                rows=_chosen(rows, together, piece.places, cut) if left else None,
                source=Source(group.sources, piece.places),
                size=end - start,
                first=piece.first,
                last=piece.last,
                cost=piece.cost,
                late=piece.late,
                refused=piece.refused,
                start=start,
                entry=LedgerEntry(batch, end, before, until, proof.digest()) if left else entry,
                of_subjects={} if reach is None or piece.refused else reach.with_rows(piece.places),
                acknowledged=not left,
                is_rest=piece.is_rest,
                costs=None if cut.each else of_rows,
            )
            start = end
    if start < acknowledged:
        raise OtherRowsError


class OtherRowsError(Exception):
    """The rows that were acknowledged are not the first rows of the sequence now."""


def _check(proof: Proof, entry: LedgerEntry) -> None:
    if proof.digest() != entry.proof:
        raise OtherRowsError


def _chosen(rows: Format, together: Rows, places: Sequence[int], cut: Cut) -> Rows:
    if isinstance(places, range) and not cut.each:
        return rows.part(together, places.start, places.stop)
    return rows.chosen(together, places)


class _Reach:
    """The latest sent time of each subject of a lane, before this micro-batch and after each
    unit."""

    def __init__(self, group: RowGroup, batch: int, entries: Entries) -> None:
        times = _joined(group.times)
        assert times is not None
        self._group = group
        self._batch = batch
        self._times: list[Time] = times.tolist()
        self._before = {one: entry.sent_before(batch) for one, entry in entries.items()}
        self._until = dict(self._before)

    def is_late(self, place: int) -> bool:
        before = self._before.get(self._group.subjects[place])
        return before is not None and self._times[place] < before

    def with_rows(self, places: Sequence[int]) -> dict[bytes, LedgerEntry]:
        """Return the entries to store for the subjects of these rows once they are sent."""
        subjects, batch, until = self._group.subjects, self._batch, self._until
        for place in places:
            known = until.get(subjects[place])
            if known is None or known < self._times[place]:
                until[subjects[place]] = self._times[place]
        return {
            name_in_lane(self._group.sequence, subject): LedgerEntry(
                batch, 0, self._before.get(subject), until[subject]
            )
            for subject in {subjects[place] for place in places}
        }


@dataclass(slots=True)
class _Piece:
    """Rows that are sent together, by their places in the group."""

    places: Sequence[int]
    first: Time | None = None
    last: Time | None = None
    cost: AnyCost = 0.0
    late: bool = False
    refused: str = ""
    is_rest: bool = False


class _Pieces:
    """Cuts one group into pieces."""

    def __init__(
        self,
        group: RowGroup,
        cut: Cut,
        before: Time | None,
        costs: RowCosts,
    ) -> None:
        self._group = group
        self._cut = cut
        self._before = before
        self._costs = costs
        self._times = _joined(group.times)
        self._ends = _joined(group.ends)
        self.by_subject: _Reach | None = None
        """Decides which rows are late, in place of the latest sent time of the sequence."""

    def all(self) -> Iterator[_Piece]:
        """Return all pieces, in the order in which they are to be sent."""
        group, cut, times = self._group, self._cut, self._times
        if group.sequence is None and cut.same_subject:
            yield from self._refused(0, group.size, NO_SUBJECT)
            return
        # Spark sorts rows without a time to the front, and times that are NaN to the back.
        begin, end = group.without_time, group.size
        if times is not None and times.dtype.kind == "f":
            end -= int((times[begin:] != times[begin:]).sum())
        late, in_time = self._by_lateness(begin, end)
        yield from self._refused(0, begin, NO_TIME)
        for place, reason in sorted(group.unreadable.items()):
            if begin <= place < end:
                yield _Piece([place], refused=reason)
        for piece in self._parts(self._readable(late)):
            piece.late = True
            if cut.refuse_late:
                piece.refused, piece.cost = LATE, 0.0
            yield piece
        yield from self._parts(self._readable(in_time))
        yield from self._refused(end, group.size, NO_TIME)

    def _by_lateness(self, begin: int, end: int) -> tuple[Sequence[int], Sequence[int]]:
        """Return the places of the late rows and of the others."""
        if self.by_subject is not None:
            late = [place for place in range(begin, end) if self.by_subject.is_late(place)]
            known = set(late)
            in_time: Sequence[int] = range(begin, end)
            if known:
                in_time = [place for place in in_time if place not in known]
            return late, in_time
        until = begin
        if self._before is not None and self._times is not None and end > begin:
            until += int(self._times[begin:end].searchsorted(self._before))
        return range(begin, until), range(until, end)

    def _readable(self, places: Sequence[int]) -> Sequence[int]:
        unreadable = self._group.unreadable
        return [one for one in places if one not in unreadable] if unreadable else places

    def parted(self, piece: _Piece, count: int) -> Iterator[_Piece]:
        """Return the first `count` rows of `piece` and its other rows, or `piece` alone if one of
        these would be empty. The first part has the cost of the whole, so that packs are the same
        as those made of the whole.
        """
        if not 0 < count < len(piece.places):
            yield piece
            return
        yield replace(piece, places=piece.places[:count])
        rest = (
            piece if piece.refused else replace(self._batch(piece.places[count:]), late=piece.late)
        )
        yield replace(rest, places=piece.places[count:], is_rest=True)

    def _refused(self, start: int, end: int, reason: str) -> Iterator[_Piece]:
        for some in range(start, end, self._cut.most_rows):
            yield _Piece(range(some, min(some + self._cut.most_rows, end)), refused=reason)

    def _parts(self, places: Sequence[int]) -> Iterator[_Piece]:
        """Return the pieces of these rows. Each row whose cost cannot be charged is one by itself,
        in its turn."""
        begin, refused = 0, self._costs.refused
        if refused:
            for index, place in enumerate(places):
                if place in refused:
                    yield from self._charged(places[begin:index])
                    yield _Piece([place], refused=refused[place])
                    begin = index + 1
        yield from self._charged(places[begin:] if begin else places)

    def _charged(self, places: Sequence[int]) -> Iterator[_Piece]:
        cut = self._cut
        if not places:
            return
        if cut.each:
            for place in places:
                yield self._piece(range(place, place + 1))
            return
        if cut.same_subject and len(places) <= cut.most_rows:
            whole = self._piece(places)
            if cut.most_cost.beyond(whole.cost) is None:
                yield whole
                return
        if not cut.in_order:
            for batch in self._as_they_come(places):
                yield self._batch(batch)
            return
        begin = 0
        for index, dimension, cost in self._costs.beyond(places, cut.most_cost):
            yield from self._charged(places[begin:index])
            reason = too_expensive(cost, cut.most_cost.amount(dimension), dimension)
            yield _Piece([places[index]], refused=reason)
            begin = index + 1
        if begin > 0:
            yield from self._charged(places[begin:])
            return
        built = self._built if cut.most_cost.are_numbers else self._built_in_turn
        for batch in built(places):
            yield self._batch(batch)

    def _batch(self, places: Sequence[int]) -> _Piece:
        """Return a piece that was found to cost no more than a batch may. The sum of its costs in
        another order may be slightly larger, and a limit of exactly the largest cost would refuse
        that in each replay, so it is bounded."""
        piece = self._piece(places)
        if len(places) > 1:
            piece.cost = self._cut.most_cost.bounded(piece.cost)
        return piece

    def _piece(self, places: Sequence[int]) -> _Piece:
        first = last = None
        if self._times is not None and isinstance(places, range):  # places are sorted by time
            first, last = self._times[places[0]].item(), self._times[places[-1]].item()
        elif self._times is not None:
            chosen = self._times[places]
            first, last = chosen.min().item(), chosen.max().item()
        if self._ends is not None:
            last = self._at(self._ends, places).max().item()
        return _Piece(places, first, last, self._costs.of(places))

    @staticmethod
    def _at(values: np.ndarray[Any, Any], places: Sequence[int]) -> np.ndarray[Any, Any]:
        if isinstance(places, range):
            return values[places.start : places.stop]
        return values[places]

    def _as_they_come(self, places: Sequence[int]) -> Iterator[Sequence[int]]:
        begin, reach = 0, self._costs.reach(places, self._cut.most_cost)
        while begin < len(places):
            end = max(begin + 1, min(begin + self._cut.most_rows, reach(begin)))
            yield places[begin:end]
            begin = end

    def _built(self, places: Sequence[int]) -> Iterator[Sequence[int]]:
        cut, group = self._cut, self._group
        assert self._times is not None
        prices: Callable[[int], float] | None = None
        most_cost: float | None = None
        if cut.most_cost.amounts:
            prices = self._costs.column("", range(group.size)).__getitem__
            most_cost = cut.most_cost.amount("")
        builder = SubjectBuilder[int](
            cut.most_rows,
            subject=(lambda place: None) if cut.same_subject else group.subjects.__getitem__,
            event_time=self._times.tolist().__getitem__,
            together_within=cut.together_within,
            cost=prices,
            max_batch_cost=most_cost,
        )
        builder.extend(places)
        for batch in builder.build():
            yield self._in_a_row(batch.measurements)

    def _built_in_turn(self, places: Sequence[int]) -> Iterator[Sequence[int]]:
        most, rows = self._cut.most_cost, range(self._group.size)
        columns = [self._costs.column(name, rows) for name, _ in most.amounts]
        sizes = list(zip([1] * len(rows), *columns, strict=True))
        groups = (
            one for together in self._timestamps(places) for one in self._by_subject(together)
        )
        for batch in next_fit(groups, sizes.__getitem__, (self._cut.most_rows, *most.sizes)):
            yield self._in_a_row(batch)

    def _timestamps(self, places: Sequence[int]) -> Iterator[list[int]]:
        """Return groups of places whose times count as the same, oldest first."""
        assert self._times is not None
        times = self._times.tolist()
        together: list[int] = []
        for place in sorted(places, key=times.__getitem__):
            if together and times[place] > times[together[0]] + self._cut.together_within:
                yield together
                together = []
            together.append(place)
        yield together

    def _by_subject(self, places: list[int]) -> list[list[int]]:
        if self._cut.same_subject:
            return [places]
        found: dict[Any, list[int]] = {}
        for place in places:
            found.setdefault(self._group.subjects[place], []).append(place)
        return list(found.values())

    def _in_a_row(self, batch: list[int]) -> Sequence[int]:
        """Return `batch`, as a range if rows of one subject follow each other."""
        if self._cut.same_subject and batch[-1] - batch[0] == len(batch) - 1:
            return range(batch[0], batch[-1] + 1)
        return batch


def _joined(parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any] | None:
    if len(parts) > 1:
        import numpy as np

        return np.concatenate(parts)
    return parts[0] if parts else None
