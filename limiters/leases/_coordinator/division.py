"""Divides a limit among its instances: who has a right to how much of each bound. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from limiters.leases._coordinator import certainty, permits
from limiters.leases._coordinator.shares import fill, in_order, next_levels, share_of
from limiters.leases._coordinator.slots import drawn, lot_of, turn_of
from limiters.leases._coordinator.state import BoundState, Holding, Limit, Record
from limiters.leases._format import (
    EASED,
    FREE_SHARE,
    LEAST_VISITS,
    LOT_BUCKETS,
    MOST_VISITS,
    SILENT_MS,
    UNITS,
    VISITS_PER_MS,
    WHOLE_BATCHES,
)


def go_on(limit: Limit, looked_at: int) -> bool:
    """Goes on with the division: visits some more instances. At the end of a round levels, queue
    and slots follow from what all instances add up to; a limit of few instances has several rounds
    in each request, until nothing changes. False if amounts do not sum to the whole.

    `looked_at` is the number of instances that this request has looked at before: two of these
    stand for a visit, so that no request takes long.
    """
    most = min(MOST_VISITS - looked_at // 2, VISITS_PER_MS * (limit.now - limit.shares_at))
    visits = max(LEAST_VISITS, most)
    limit.shares_at = limit.now
    everyone, is_whole = list(limit.records.items()), False
    orders = _orders(limit)
    while visits > 0 and everyone:
        if limit.visited in (0, len(everyone)):  # others were given up since
            limit.clear_round()
            is_whole = True
        name, record = everyone[limit.visited]
        _visit(limit, name, record, orders)
        limit.visited += 1
        visits -= 1
        if limit.visited == len(everyone):
            if is_whole and not certainty.agrees(limit):
                return False
            changes = _end(limit, orders)
            limit.clear_round()
            if is_whole and not changes:
                break
            orders = _orders(limit)
    return True


Orders = tuple[list[int], list[int]]
"""The order of all bounds by how soon they are used up: of all instances, and of those that hold
shares."""


def _orders(limit: Limit) -> Orders:
    return in_order(limit.fair, limit.wholes), in_order(limit.levels, limit.wholes)


def _visit(limit: Limit, name: str, record: Record, orders: Orders) -> None:
    """Adds one instance to the sums, and puts it where it belongs in the queue."""
    demand, fair = permits.needs_of(limit, record), permits.fair_share(limit, record)
    on_permits, sums = permits.lives_on_permits(limit, record), [one.sums for one in limit.bounds]
    limit.on_permits += on_permits
    fill([one.fair for one in sums], demand, limit.fair, orders[0], limit.wholes)
    if limit.apart and not on_permits:
        fill([one.level for one in sums], demand, limit.levels, orders[1], limit.wholes)
    for one, need, units in zip(sums, demand.needs, fair.units, strict=True):
        one.needs += need
        one.shares += units
        if on_permits:
            one.aside += units
        elif not fair.limited:
            one.satisfied += need
    if limit.is_short:
        _visit_slots(limit, record)
    if record.asks:
        permits.enqueue(limit, name, record)


def _visit_slots(limit: Limit, record: Record) -> None:
    rights = None
    for at, bound in enumerate(limit.bounds):
        if not bound.terms.slots:
            continue
        rights = rights or _without_lots(limit, record)
        one, sums = record.holdings[at], bound.sums
        units, lot = rights.units[at], rights.lots[at]
        sums.rights += units
        if lot < LOT_BUCKETS:
            sums.lots[lot] = sums.lots.get(lot, 0) + 1
        if record.seen + 2 * record.interval + SILENT_MS >= limit.now:
            units += _has_turn(limit, bound, one, lot)
            sums.lacking += max(0, units - one.units)
            sums.unserved += one.units < units and _is_unserved(bound, one, lot)


def _end(limit: Limit, orders: Orders) -> bool:
    """What follows from a round; whether that changes the next one."""
    before, was_short = _outcome(limit), limit.is_short
    fair = next_levels(
        limit.fair, [one.sums.fair for one in limit.bounds], limit.wholes, orders[0], limit.wholes
    )
    limit.queue = [one for one in limit.queue if one.silent >= limit.now]
    levels = fair
    if limit.apart and limit.on_permits:
        left = [
            bound.whole - (bound.sums.aside if bound.terms.slots else aside)
            for bound, aside in zip(limit.bounds, permits.kept_aside(limit), strict=True)
        ]
        fillings = [one.sums.level for one in limit.bounds]
        levels = next_levels(limit.levels, fillings, left, orders[1], limit.wholes)
    limit.apart = limit.on_permits > 0
    for at, bound in enumerate(limit.bounds):
        bound.fair, bound.level = fair[at], levels[at]
    if limit.is_short and not was_short:
        limit.short_since = limit.now
    for bound in limit.bounds:
        _spread(limit, bound)
    return _outcome(limit) != before


def _outcome(limit: Limit) -> list[object]:
    """What the next round depends on."""
    of_bounds = [
        (one.fair, one.level, one.ease, one.spare, one.lot, one.lacking, one.epoch)
        for one in limit.bounds
    ]
    return [limit.apart, *of_bounds]


def _spread(limit: Limit, bound: BoundState) -> None:
    """How much more than it needs or uses an instance may hold, and who has the slots that are left
    over."""
    sums, used = bound.sums, bound.sums.shares
    bound.needs = sums.needs
    # Of a bound that is not short while another is, instances use less than there is: they may
    # hold most of the rest, too, so that they need not wait where batches differ. Fractions of
    # slots are part of the rest, as long as shares are whole slots: needs of slots are those at
    # peak, and not all instances have theirs at once.
    plenty = limit.is_short and not bound.fair.weight and used > 0
    bound.ease = 1 + max(0, bound.whole - used) * EASED / used if plenty else 1.0
    # Where no instance is short, half of what is left is held by those that work, so that they can
    # do more without asking first; the other half serves newcomers immediately. An instance that is
    # short of another bound could not use it.
    left = bound.whole - sums.needs
    bound.spare = left / 2 / sums.satisfied if left > 0 and sums.satisfied > 0 else 0.0
    bound.lot = bound.lacking = 0
    if bound.terms.slots and limit.is_short:
        bound.lot, bound.lacking = drawn(sums.lots, bound.whole - sums.rights), sums.lacking
    if bound.terms.slots:
        _next_epoch(limit, bound)


def _next_epoch(limit: Limit, bound: BoundState) -> None:
    """An epoch ends when all turns in it have ended. Where calls last longer than turns, an
    instance may have to wait until a call of another has ended: else, by chance, it would find no
    slot free each time. A call that lasts longer than calls may last delays no turn."""
    turn = turn_of(limit.interval)
    ends = max(bound.epoch_since, bound.served_at) + turn
    latest = bound.epoch_since + turn + bound.terms.period
    if limit.now >= (latest if bound.sums.unserved else ends):
        bound.epoch, bound.epoch_since = bound.epoch + 1, limit.now


@dataclass(frozen=True, slots=True)
class Rights:
    """How much of each bound an instance may hold as a share."""

    units: list[int]
    limited: bool
    """Whether its fair share is less than it needs."""
    lots: list[int]
    """By which it may have one slot more."""


def rights_of(limit: Limit, record: Record) -> Rights:
    """How much of each bound an instance may hold."""
    rights = _without_lots(limit, record)
    for at, (bound, one) in enumerate(zip(limit.bounds, record.holdings, strict=True)):
        rights.units[at] += _has_turn(limit, bound, one, rights.lots[at])
    return rights


def _is_unserved(bound: BoundState, one: Holding, lot: int) -> bool:
    """Whether it is to have a slot more in this epoch, and has not had one."""
    return lot < bound.lot and one.served_at < bound.epoch_since


def _has_turn(limit: Limit, bound: BoundState, one: Holding, lot: int) -> bool:
    """Whether it has a right to one slot more: until it had that for a turn."""
    is_on = limit.now < one.served_at + turn_of(limit.interval)
    return lot < bound.lot and (is_on or one.served_at < bound.epoch_since)


def note_turn(limit: Limit, bound: BoundState, one: Holding, right: int, lot: int) -> None:
    """Its turn begins, once it holds what it has a right to."""
    if one.units >= right and _is_unserved(bound, one, lot):
        one.served_at = bound.served_at = limit.now


def _without_lots(limit: Limit, record: Record) -> Rights:
    fair, on_permits = permits.fair_share(limit, record), permits.lives_on_permits(limit, record)
    levels = [bound.fair if on_permits else bound.level for bound in limit.bounds]
    share = share_of(permits.needs_of(limit, record), levels)
    units, lots = share.units, [LOT_BUCKETS] * len(levels)
    if share.limited and not on_permits:
        units = _whole_batches(limit, record, units)
    for at, (bound, one) in enumerate(zip(limit.bounds, record.holdings, strict=True)):
        if on_permits and not bound.terms.slots:
            units[at] = 0
        elif not on_permits and not fair.limited and bound.spare > 0:
            units[at] = min(bound.whole, one.need + math.floor(one.need * bound.spare))
        elif bound.terms.slots:
            part = min(float(one.need), permits.eased(limit, record, share, at))
            units[at], lots[at] = math.floor(part), lot_of(part, record.arrival, bound.epoch)
        elif share.limited and not bound.fair.weight:
            part = permits.eased(limit, record, share, at)
            units[at] = min(one.need, math.floor(part))
    return Rights(units, fair.limited, lots)


def _whole_batches(limit: Limit, record: Record, units: list[int]) -> list[int]:
    """A share of few batches, rounded down to whole ones in each bound that is short."""
    rounded = []
    for bound, one, held in zip(limit.bounds, record.holdings, units, strict=True):
        worth = bound.worth(limit.now)
        number = held * worth / one.piece if one.piece > 0 and bound.fair.weight else math.inf
        if number < WHOLE_BATCHES:
            held = min(UNITS, math.ceil(math.floor(number + 1e-9) * one.piece / worth))
        rounded.append(held)
    return rounded


def comes_soon(limit: Limit, bound: BoundState) -> bool:
    """Whether an instance that holds nothing of a bound is likely to be granted its right before
    its next sync. A slot that did not come free within a turn is in a call that takes longer."""
    return not bound.terms.slots or limit.now < bound.epoch_since + turn_of(limit.interval)


def with_one_more(bound: BoundState, one: Holding, right: int) -> int:
    """How many slots an instance is granted: one more than its right, if it needs that and the slot
    is free and no other instance has a right to it. It may not keep it."""
    is_free = bound.pool > bound.lacking
    return right + 1 if one.units == right < one.need and is_free else right


def kept(
    bound: BoundState, one: Holding, right: int, before: int, limited: bool, uncertain: bool
) -> int:
    """How much of what it holds an instance may keep. Each hand-over of a rate carries history, so
    nothing moves while no instance is short. A slot that was free a moment ago may be used until
    the next request; then it stays only while others are free."""
    if uncertain:
        return max(right, one.units)
    if bound.terms.slots:
        stays = bound.pool > bound.lacking or one.units > max(right, before)
        return max(right, min(one.units, one.need)) if stays else right
    free = bound.pool * FREE_SHARE >= bound.whole
    return (
        max(right, one.units) if free and bound.spare > 0 and right > 0 and not limited else right
    )
