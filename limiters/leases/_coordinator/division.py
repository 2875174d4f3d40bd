"""Divides a limit among its instances: who has a right to how much of each bound. Pure."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from limiters.leases._coordinator import permits
from limiters.leases._coordinator.shares import Share, levels_of, share_of
from limiters.leases._coordinator.slots import drawn, epoch_at, lot_of
from limiters.leases._coordinator.state import BoundState, Holding, Limit, Record
from limiters.leases._format import (
    EASED,
    FREE_SHARE,
    LOT_BUCKETS,
    QUEUE_LENGTH,
    SILENT_MS,
    UNITS,
    WHOLE_BATCHES,
)


def divide(limit: Limit) -> None:
    """Computes the levels of all bounds, the queue of those who wait, and who has the slots that
    are left over."""
    limit.shares_at = limit.now
    records = list(limit.records.values())
    demands = [permits.needs_of(limit, one) for one in records]
    fair, was_short = levels_of(demands, limit.wholes), limit.is_short
    for at, bound in enumerate(limit.bounds):
        bound.needs = sum(one.holdings[at].need for one in records)
        bound.fair = bound.level = fair[at]
    if limit.is_short and not was_short:
        limit.short_since = limit.now
    _ease(limit, [share_of(one, fair) for one in demands])
    places = [permits.waiter(limit, name, one) for name, one in limit.records.items()]
    limit.queue = heapq.nsmallest(
        QUEUE_LENGTH,
        [one for one in places if one is not None],
        key=lambda one: (one.turn > limit.turns_at, one),
    )
    sharing = [not permits.lives_on_permits(limit, one) for one in records]
    if not all(sharing):
        shared = [one for one, shares in zip(demands, sharing, strict=True) if shares]
        left = _left_for_shares(limit, records, sharing)
        for bound, level in zip(limit.bounds, levels_of(shared, limit.wholes, left), strict=True):
            bound.level = level
    _spread_spare(limit, records, sharing)
    _divide_slots(limit, records)


def _left_for_shares(limit: Limit, records: Sequence[Record], sharing: Sequence[bool]) -> list[int]:
    """What those who live on permits leave of each bound to the others: of rates, what is not kept
    aside for them; of slots, all but their fair shares."""
    left = []
    for at, (bound, aside) in enumerate(zip(limit.bounds, permits.kept_aside(limit), strict=True)):
        if bound.terms.slots:
            aside = sum(
                permits.fair_share(limit, one).units[at]
                for one, shares in zip(records, sharing, strict=True)
                if not shares
            )
        left.append(bound.whole - aside)
    return left


def _ease(limit: Limit, shares: Sequence[Share]) -> None:
    """Of a bound that is not short while another is, instances use less than there is: they may
    hold most of the rest, too, so that they need not wait where batches differ."""
    for at, bound in enumerate(limit.bounds):
        used = sum(one.units[at] for one in shares)
        short = not limit.is_short or bound.fair.weight or not used
        bound.ease = 1.0 if short else 1 + max(0, bound.whole - used) * EASED / used


def _spread_spare(limit: Limit, records: Sequence[Record], sharing: Sequence[bool]) -> None:
    """Where nobody is short, half of what is left is held by those who work, so that they can do
    more without asking first; the other half serves newcomers at once. An instance that is short of
    another bound could not use it."""
    satisfied = [
        one
        for one, shares in zip(records, sharing, strict=True)
        if shares and not permits.fair_share(limit, one).limited
    ]
    for at, bound in enumerate(limit.bounds):
        left, needed = bound.whole - bound.needs, sum(one.holdings[at].need for one in satisfied)
        bound.spare = left / 2 / needed if left > 0 and needed > 0 else 0.0


def _divide_slots(limit: Limit, records: Sequence[Record]) -> None:
    """Who has the slots that are left over, and how many of these are still held by others."""
    limit.epoch = epoch_at(limit.now, limit.interval)
    for at, bound in enumerate(limit.bounds):
        bound.lot = bound.lacking = 0
        if not bound.terms.slots or not limit.is_short:
            continue
        rights = [_without_lots(limit, one) for one in records]
        left = bound.whole - sum(one.units[at] for one in rights)
        bound.lot = drawn((one.lots[at] for one in rights), left)
        bound.lacking = sum(
            max(0, right.units[at] + (right.lots[at] < bound.lot) - one.holdings[at].units)
            for one, right in zip(records, rights, strict=True)
            if one.seen + 2 * one.interval + SILENT_MS >= limit.now
        )


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
    for at, bound in enumerate(limit.bounds):
        rights.units[at] += rights.lots[at] < bound.lot
    return rights


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
            units[at], lots[at] = math.floor(part), lot_of(part, record.arrival, limit.epoch)
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


def with_one_more(bound: BoundState, one: Holding, right: int) -> int:
    """How many slots an instance is granted: one more than its right, if it needs that and the slot
    is free and nobody else has a right to it. It may not keep it."""
    is_free = bound.pool > bound.lacking
    return right + 1 if one.units == right < one.need and is_free else right


def kept(
    bound: BoundState, one: Holding, right: int, before: int, limited: bool, uncertain: bool
) -> int:
    """How much of what it holds an instance may keep. Each hand-over of a rate carries history, so
    nothing moves while nobody is short. A slot that was free a moment ago may be used until the
    next request; then it stays only while others are free."""
    if uncertain:
        return max(right, one.units)
    if bound.terms.slots:
        stays = bound.pool > bound.lacking or one.units > max(right, before)
        return max(right, min(one.units, one.need)) if stays else right
    free = bound.pool * FREE_SHARE >= bound.whole
    return (
        max(right, one.units) if free and bound.spare > 0 and right > 0 and not limited else right
    )
