"""Who has a right to how many slots, and for how long. Pure; `slots` has the rules of turns."""

from __future__ import annotations

import math
from dataclasses import dataclass

from limiters.leases._coordinator import permits
from limiters.leases._coordinator.shares import Share, parts_of
from limiters.leases._coordinator.slots import drawn, line_of, lot_of, turn_of, turns_in
from limiters.leases._coordinator.state import BoundState, Holding, Limit, Record
from limiters.leases._format import LATEST, LOT_BUCKETS, NEVER, SILENT_MS


@dataclass(frozen=True, slots=True)
class SlotRight:
    """What an instance may hold of a bound of slots."""

    units: int
    """Without a turn."""
    whole: int = 0
    """The same if no other had a turn that took some of it away."""
    piece: int = 1
    """How many slots a batch takes."""
    rest: float = 0.0
    """How much of a batch was rounded off."""
    lot: int = LOT_BUCKETS
    """By which it may have one slot more."""
    place: int = LOT_BUCKETS
    """In the line of those that may have a batch of several slots more."""
    fair: float = 0.0
    """Its share before anything is rounded off, or taken away by turns."""
    scales: bool = False
    """Whether it has more between the turns of others."""

    def with_turn(self, limit: Limit, bound: BoundState, one: Holding) -> int:
        """What it may hold now."""
        if self.piece > 1:
            in_turn = self.has_line_turn(limit, bound, one) or self.place < bound.turns
            return self.whole + self.piece if in_turn else self.units
        is_on = limit.now < one.served_at + turn_of(limit.interval)
        return self.units + (self.lot < bound.lot and (is_on or self.is_unserved(bound, one)))

    def has_line_turn(self, limit: Limit, bound: BoundState, one: Holding) -> bool:
        """Whether its turn with one batch of several slots more is under way."""
        is_on = bound.line_from < one.served_at > limit.now - turn_of(limit.interval)
        return is_on and self.rest > 0

    def is_unserved(self, bound: BoundState, one: Holding) -> bool:
        """Whether it is to have a slot more in this epoch, and has not had one."""
        return self.lot < bound.lot and one.served_at < bound.epoch_since


def right_to(limit: Limit, record: Record, at: int, share: Share) -> SlotRight:
    """What an instance with this share may hold, before turns."""
    bound, one = limit.bounds[at], record.holdings[at]
    piece = permits.slots_of_batch(bound, one)
    part = fair = min(float(one.need), permits.eased(limit, record, share, at))
    if piece > 1:
        number = math.floor(part / piece)
        rest = part / piece - number
        place = LOT_BUCKETS
        if rest > 0 and one.due_at != NEVER:
            late = (limit.now - one.due_at) * rest / turn_of(limit.interval)
            place = line_of(late, record.arrival, bound.epoch)
        kept = math.floor(number * bound.keeps) * piece
        return SlotRight(kept, number * piece, piece, rest, place=place, fair=fair)
    scales = share.scarcest == at
    part = min(float(one.need), part * bound.scale) if scales else part * bound.keeps
    lot = lot_of(part, record.arrival, bound.epoch)
    return SlotRight(math.floor(part), lot=lot, fair=fair, scales=scales)


def all_it_needs(bound: BoundState, one: Holding, units: int) -> SlotRight:
    """The right of an instance where none is short of slots, to so many."""
    return SlotRight(units, units, permits.slots_of_batch(bound, one), fair=float(units))


def visit(limit: Limit, record: Record, at: int, right: SlotRight) -> None:
    """Adds the right of one instance to the sums of a round."""
    bound, one = limit.bounds[at], record.holdings[at]
    sums, parts = bound.sums, parts_of(bound.whole)
    is_there = record.seen + 2 * record.interval + SILENT_MS >= limit.now
    units = right.with_turn(limit, bound, one) if is_there else right.units
    if right.piece > 1:
        _visit_line(limit, bound, one, right, units, is_there=is_there)
        sums.rights += units
    else:
        sums.rights += right.units
        if right.lot < LOT_BUCKETS:
            sums.lots[right.lot] = sums.lots.get(right.lot, 0) + 1
        if right.scales:
            sums.scaled += math.floor(right.fair * parts)
        else:
            sums.kept += math.floor(right.fair * parts)
    if is_there:
        sums.lacking += max(0, units - one.units)
        sums.unserved += one.units < units and right.is_unserved(bound, one)


def _visit_line(
    limit: Limit, bound: BoundState, one: Holding, right: SlotRight, units: int, *, is_there: bool
) -> None:
    sums, parts = bound.sums, parts_of(bound.whole)
    sums.rest += math.floor(right.rest * right.piece * parts)
    if not is_there:
        sums.kept += right.whole * parts
        return
    slots = right.whole + right.piece
    if right.has_line_turn(limit, bound, one):
        sums.rest -= right.piece * parts
        sums.turns += slots
    elif right.place < LOT_BUCKETS:
        place = LOT_BUCKETS + right.place
        sums.lots[place] = sums.lots.get(place, 0) + slots
    if units == slots:
        sums.taken += units
    else:
        sums.kept += right.whole * parts


def end_round(limit: Limit, bound: BoundState) -> None:
    """Who has the slots that are left over, and who has a turn, after a round."""
    sums = bound.sums
    bound.lot = bound.lacking = bound.turns = 0
    bound.keeps = bound.scale = 1.0
    if limit.is_short:
        bound.lot, bound.lacking = drawn(sums.lots, bound.whole - sums.rights), sums.lacking
        if sums.rest or sums.turns:
            _spread_turns(limit, bound)
    _next_epoch(limit, bound)


def _spread_turns(limit: Limit, bound: BoundState) -> None:
    """Turns with batches of several slots: those that have none share what is left, first those
    that slots do not limit."""
    sums, parts = bound.sums, parts_of(bound.whole)
    kept, scaled = sums.kept / parts, sums.scaled / parts
    left = bound.whole - sums.turns
    if left < 0:  # there are fewer slots than there were
        bound.line_from = limit.now
    free = left - kept - scaled
    bound.turns = turns_in(sums.lots, left, free, sums.rest / parts, bound.whole)
    left = max(0, bound.whole - sums.taken)
    if kept > left:
        bound.keeps = left / kept
    if scaled > 0:
        bound.scale = max(0.0, left - kept) / scaled


def _next_epoch(limit: Limit, bound: BoundState) -> None:
    """An epoch ends when all turns in it have ended. Where calls last longer than turns, an
    instance may have to wait until a call of another has ended: else, by chance, it would find no
    slot free each time. A call that lasts longer than calls may last delays no turn."""
    turn = turn_of(limit.interval)
    ends = max(bound.epoch_since, bound.served_at) + turn
    latest = bound.epoch_since + turn + bound.terms.period
    if limit.now >= (latest if bound.sums.unserved else ends):
        bound.epoch, bound.epoch_since = bound.epoch + 1, limit.now


def note_turn(limit: Limit, bound: BoundState, one: Holding, right: SlotRight) -> None:
    """Its turn begins, once it holds what it has a right to."""
    if right.piece == 1:
        if one.units >= right.with_turn(limit, bound, one) and right.is_unserved(bound, one):
            one.served_at = bound.served_at = limit.now
        return
    turn = turn_of(limit.interval)
    if right.rest <= 0 or not limit.is_short:
        one.due_at = max(one.due_at, limit.now)  # it does not save while it lacks nothing
        return
    saves, before, one.fair = turn / right.rest, one.fair, right.rest * right.piece
    if one.due_at == NEVER:  # a new one saves first: else new names would be of use
        one.due_at = min(limit.now + math.ceil(saves), LATEST)
    elif one.due_at > limit.now and before > 0:  # what it lacks stays the same if its share changes
        lacks = (one.due_at - limit.now) * (before / one.fair)
        one.due_at = min(limit.now + math.ceil(lacks), LATEST)
    is_on = right.has_line_turn(limit, bound, one)
    if right.place < bound.turns and not is_on and one.units >= right.whole + right.piece:
        one.served_at = bound.line_at = limit.now
        # What it waited for others is made up for, up to a turn; what it waited longer is not.
        one.due_at = min(max(one.due_at, limit.now - turn) + math.ceil(saves), LATEST)


def note_use(
    limit: Limit,
    bound: BoundState,
    one: Holding,
    right: SlotRight,
    before: int,
    keep: int,
    elapsed: int,
) -> None:
    """It saves for what it held before and has no right to, too: for calls that last longer than
    its turn, and for slots that were free, but for those no longer than a new one."""
    turn = turn_of(limit.interval)
    over = min(elapsed, limit.now - one.served_at - turn)
    excess = before - right.with_turn(limit, bound, one)
    if right.piece == 1 or right.rest <= 0 or min(over, excess) <= 0 or one.due_at == NEVER:
        return
    due_at = one.due_at + math.ceil(over * excess / (right.piece * right.rest))
    if before <= keep:
        due_at = min(due_at, max(one.due_at, limit.now + math.ceil(turn / right.rest)))
    one.due_at = min(due_at, LATEST)


def comes_soon(limit: Limit, bound: BoundState, one: Holding, right: SlotRight) -> bool:
    """Whether an instance that holds nothing is likely to be granted its right before its next
    sync. Slots that did not come free within a turn are in calls that take longer."""
    turn = turn_of(limit.interval)
    if right.piece > 1:
        return limit.now < max(one.due_at, bound.line_at + turn) + turn
    return limit.now < bound.epoch_since + turn


def granted(bound: BoundState, one: Holding, right: SlotRight, units: int) -> int:
    """How many slots more an instance is granted that has a right to `units`: a batch more than
    that, if it needs it and the slots are free and no other instance has a right to them; it may
    not keep them. And no part of what a batch takes: that would be of no use to any instance."""
    piece = right.piece
    if one.units == units < one.need and bound.pool - bound.lacking >= piece:
        units += piece
    if units - one.units > bound.pool and piece > 1:
        units = (one.units + max(0, bound.pool)) // piece * piece
    return min(units - one.units, bound.pool)


def kept(bound: BoundState, one: Holding, right: SlotRight, units: int, before: int) -> int:
    """How many slots an instance may keep. What was free a moment ago may be used until the next
    request; then it stays only while others are free. While more are held than there are now, an
    instance keeps none: calls that end make room, and none begins."""
    if bound.pool < 0:
        return 0
    if bound.pool > bound.lacking or one.units > max(units, before):
        more = max(0, min(one.units, one.need) - units)
        return units + more // right.piece * right.piece
    return units
