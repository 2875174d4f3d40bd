"""Divides a limit among its instances: who has a right to how much of each bound. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from limiters.leases._coordinator import certainty, permits, slot_rights
from limiters.leases._coordinator.shares import fill, in_order, next_levels, share_of
from limiters.leases._coordinator.slot_rights import SlotRight
from limiters.leases._coordinator.state import BoundState, Holding, Limit, Record
from limiters.leases._format import (
    EASED,
    FREE_SHARE,
    LEAST_VISITS,
    MOST_VISITS,
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
    if any(bound.terms.slots for bound in limit.bounds):
        rights = _before_turns(limit, record)
        for at, right in rights.slots.items():
            slot_rights.visit(limit, record, at, right)


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
        (
            *(one.fair, one.level, one.ease, one.spare),
            *(one.lot, one.lacking, one.epoch, one.turns, one.line_from),
            *(one.keeps, one.scale),
        )
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
    if bound.terms.slots:
        slot_rights.end_round(limit, bound)


@dataclass(frozen=True, slots=True)
class Rights:
    """How much of each bound an instance may hold as a share."""

    units: list[int]
    limited: bool
    """Whether its fair share is less than it needs."""
    slots: dict[int, SlotRight]
    """The same of each bound of slots, before turns."""


def rights_of(limit: Limit, record: Record) -> Rights:
    """How much of each bound an instance may hold."""
    rights = _before_turns(limit, record)
    for at, right in rights.slots.items():
        rights.units[at] = right.with_turn(limit, limit.bounds[at], record.holdings[at])
    return rights


def _before_turns(limit: Limit, record: Record) -> Rights:
    fair, on_permits = permits.fair_share(limit, record), permits.lives_on_permits(limit, record)
    levels = [bound.fair if on_permits else bound.level for bound in limit.bounds]
    share = share_of(permits.needs_of(limit, record), levels)
    units, slots = share.units, dict[int, SlotRight]()
    if share.limited and not on_permits:
        units = _whole_batches(limit, record, units)
    for at, (bound, one) in enumerate(zip(limit.bounds, record.holdings, strict=True)):
        if on_permits and not bound.terms.slots:
            units[at] = 0
        elif not on_permits and not fair.limited and bound.spare > 0:
            units[at] = min(bound.whole, one.need + math.floor(one.need * bound.spare))
            if bound.terms.slots:
                slots[at] = slot_rights.all_it_needs(bound, one, units[at])
        elif bound.terms.slots:
            slots[at] = slot_rights.right_to(limit, record, at, share)
        elif share.limited and not bound.fair.weight:
            part = permits.eased(limit, record, share, at)
            units[at] = min(one.need, math.floor(part))
    return Rights(units, fair.limited, slots)


def _whole_batches(limit: Limit, record: Record, units: list[int]) -> list[int]:
    """A share of few batches, rounded down to whole ones in each bound that is short."""
    rounded = []
    for bound, one, held in zip(limit.bounds, record.holdings, units, strict=True):
        worth = bound.worth(limit.now)
        counts = one.piece > 0 and bound.fair.weight and not bound.terms.slots
        number = held * worth / one.piece if counts else math.inf
        if number < WHOLE_BATCHES:
            held = min(UNITS, math.ceil(math.floor(number + 1e-9) * one.piece / worth))
        rounded.append(held)
    return rounded


def comes_soon(limit: Limit, one: Holding, rights: Rights, at: int) -> bool:
    """Whether an instance that holds nothing of a bound is likely to be granted its right before
    its next sync."""
    right = rights.slots.get(at)
    return right is None or slot_rights.comes_soon(limit, limit.bounds[at], one, right)


def kept(
    bound: BoundState, one: Holding, rights: Rights, at: int, before: int, uncertain: bool
) -> int:
    """How much of what it holds an instance may keep. Each hand-over of a rate carries history, so
    nothing moves while no instance is short."""
    right = rights.units[at]
    if uncertain:
        return max(right, one.units)
    if bound.terms.slots:
        return slot_rights.kept(bound, one, rights.slots[at], right, before)
    free = bound.pool * FREE_SHARE >= bound.whole
    return (
        max(right, one.units)
        if free and bound.spare > 0 and right > 0 and not rights.limited
        else right
    )
