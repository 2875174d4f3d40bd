"""Permits: one-shot rights, spent from the pool, and the queue of those who wait for one. Pure.

A permit is the right to start one batch of a given cost within a few hundred milliseconds. Its
cost counts in the pool's ledger from the start, as if used at the last moment; the next request
of its holder reports the actual start, and the entry is corrected.
"""

from __future__ import annotations

import math
from bisect import insort

from limiters.leases._coordinator.state import Limit, Permit, Record, Waiter
from limiters.leases._format import (
    CREDIT_PERIODS,
    FEW_BATCHES,
    FLOAT_ERROR,
    LATEST,
    LEAST_PACE,
    MIN_STAYED,
    QUEUE_LENGTH,
    ROUNDED_UP,
    SILENT_MS,
    UNITS,
)
from limiters.leases._ledger import believed, slice_end
from limiters.leases._messages import Request


def fair_share(limit: Limit, record: Record) -> int:
    """What an instance may have of the limit, by shares and permits together."""
    return limit.fair.share(record.need, record.weight)


def entitlement(limit: Limit, record: Record) -> float:
    """What its fair share would be worth if it needed as much as it could get."""
    level = limit.fair
    units = record.weight * level.units // level.weight if level.weight else UNITS
    return max(1, min(UNITS, units)) * limit.worth


def _takes(limit: Limit, record: Record, cost: float) -> float:
    """The time in which its fair share makes up for a cost."""
    return cost * limit.terms.period / entitlement(limit, record)


def lives_on_permits(limit: Limit, record: Record) -> bool:
    """Whether a share is of little use to an instance: less than it needs, and too few batches."""
    batch = record.ask if record.gathers else record.piece
    fair = fair_share(limit, record)
    return fair * limit.worth < (FEW_BATCHES if fair < record.need else 1) * batch


def wants(limit: Limit, record: Record) -> int:
    """What it wants as a share, in units."""
    return 0 if lives_on_permits(limit, record) else record.need


def waiter(limit: Limit, name: str, record: Record) -> Waiter | None:
    """Its place in the queue; None if it does not wait, or has not been heard of for too long."""
    silent = record.seen + 2 * record.interval + SILENT_MS
    if record.ask <= 0 or silent < limit.now:
        return None
    later = not lives_on_permits(limit, record)
    fair = entitlement(limit, record)
    return Waiter(later, record.turn, record.ask_since, name, record.ask, silent, fair)


def enqueue(limit: Limit, name: str, record: Record) -> None:
    """Puts an instance where it belongs in the queue of the header, or removes it."""
    limit.queue = [one for one in limit.queue if one.instance != name]
    place = waiter(limit, name, record)
    if place is not None:
        insort(limit.queue, place, key=lambda one: (one.turn > limit.turns_at, one))
        del limit.queue[QUEUE_LENGTH:]


def line(limit: Limit) -> list[Waiter]:
    """Those whose turn it is, in order; if nobody's turn has come, the next one all the same."""
    waiting = sorted(one for one in limit.queue if one.silent >= limit.now)
    return [one for one in waiting if one.turn <= limit.turns_at] or waiting[:1]


def on_permits(limit: Limit) -> list[Waiter]:
    """Those who wait and live on permits, in order."""
    return sorted(one for one in limit.queue if not one.later and one.silent >= limit.now)


def keep_pace(limit: Limit, elapsed: int) -> None:
    """The clock of turns goes slower while one who lives on permits is too late."""
    turns = [one.turn for one in limit.queue if not one.later and one.silent >= limit.now]
    too_late = limit.turns_at - CREDIT_PERIODS * limit.terms.period - min(turns, default=math.inf)
    limit.behind += max(0.0, min(too_late, elapsed * (1 - LEAST_PACE)))


def kept_aside(limit: Limit) -> int:
    """How much of the pool is kept for permits: of the batches that are due of those who live on
    them, in order, as many as their fair shares are worth; at least the first one. So they do not
    starve those that hold shares. Between their turns the others may have it all. If the first is
    late, batches do not fit together: those whose turn comes within the same time count, too."""
    waiting = on_permits(limit)
    if not waiting or waiting[0].turn > limit.turns_at:
        return 0
    soon = 2 * limit.turns_at - waiting[0].turn
    due = [one for one in waiting if one.turn <= soon]
    whole = limit.in_force
    fair = 0.0
    for one in due:
        fair = min(whole, fair + one.fair)
    aside = 0.0
    for one in due:
        ask = max(one.ask, FLOAT_ERROR * whole)
        late = max(0.0, limit.turns_at - one.turn) * one.fair / (ask * limit.terms.period)
        batches = 1 + math.floor(min(late, one.fair / ask))
        fits = math.floor(min((fair - aside) / ask + ROUNDED_UP, (whole - aside) / ask))
        aside += ask * min(batches, max(fits, 0 if aside else 1))
    return math.ceil(min(aside / limit.worth, UNITS))


def follow_fair_share(limit: Limit, record: Record) -> None:
    """What its fair share has still to make up for stays the same cost when that share changes. A
    new instance, where capacity is short, saves for its first batch: otherwise it would pay to come
    back under a new name for each one."""
    fair = entitlement(limit, record)
    if not record.fair:
        if not record.ask:
            return
        if limit.fair.weight:
            record.turn = max(record.turn, limit.turns_at + _takes(limit, record, record.ask))
    elif record.turn > limit.turns_at:
        record.turn = limit.turns_at + (record.turn - limit.turns_at) * (record.fair / fair)
    record.turn, record.fair = min(record.turn, LATEST), fair


def spent_by_share(limit: Limit, record: Record, request: Request, elapsed: int) -> None:
    """What an instance spent on its share delays its next permit, too: both together are what it
    may have. Waiting costs no credit; only an instance that asks for nothing loses what is too old.
    """
    if not limit.fair.weight:
        record.turn = max(record.turn, limit.turns_at)
        return
    if limit.now - elapsed < limit.short_since:
        # There was enough until now: an instance that has spent begins to save for its next batch,
        # so that those that have not spent go first.
        if request.spent > 0:
            takes = _takes(limit, record, max(record.ask, record.piece))
            record.turn = min(max(record.turn, limit.turns_at + takes), LATEST)
        return
    if not record.ask:
        record.turn = max(record.turn, limit.turns_at - CREDIT_PERIODS * limit.terms.period)
    by_share = max(0.0, request.spent - request.by_permit)
    record.turn += elapsed * min(1.0, by_share / entitlement(limit, record))


def correct(limit: Limit, record: Record, request: Request) -> None:
    """The last permit is over; if the request reports how it was used, its entry is corrected:
    for the fraction that has stayed in the pool."""
    permit, record.permit = record.permit, Permit()
    if not permit.number or request.permit != permit.number:
        return
    stayed = limit.stayed / permit.stayed if limit.wave == permit.wave else 0.0
    limit.ledger.subtract(permit.at, permit.cost * stayed)
    used = [
        (
            permit.at
            if age < 0
            else min(permit.at, slice_end(limit.now - age, limit.terms.period)),
            cost,
        )
        for age, cost in request.permit_spent
    ]
    since = limit.now - limit.terms.counts
    limit.ledger.merge(believed(used, permit.cost, since), stayed)


def handed_over(limit: Limit, part: float) -> None:
    """`part` of the pool was granted: entries of permits are no longer in it as a whole."""
    limit.stayed *= 1 - part
    if limit.stayed < MIN_STAYED:
        limit.stayed, limit.wave = 1.0, limit.wave + 1


def grant(limit: Limit, name: str, record: Record, request: Request) -> int:
    """A permit, if it is this one's turn and there is room. When to ask again; -1 for never."""
    terms, clock = limit.terms, limit.turns_at
    due = line(limit)
    names = [one.instance for one in due]
    if name not in names:
        if record.turn <= clock:  # others have waited longer: the next sync is soon enough
            return -1
        return min(4 * record.interval, math.ceil(record.turn - clock) + 1)
    room = limit.pool * limit.worth - limit.ledger.total(limit.now - terms.counts)
    for one in due[: names.index(name)]:
        room -= one.ask
    if room < record.ask - FLOAT_ERROR * limit.in_force:
        return _room_at(limit, record.ask - room, record.interval)
    turn = clock
    if limit.fair.weight:
        takes = _takes(limit, record, record.ask)
        oldest = clock - max(takes, CREDIT_PERIODS * terms.period)
        turn = min(max(oldest, record.turn), clock) + takes
    record.turn = turn
    at = slice_end(limit.now + request.valid, terms.period)
    limit.ledger.add(at, record.ask)
    limit.next_id += 1
    record.permit = Permit(limit.next_id, at, record.ask, limit.stayed, limit.wave)
    # It keeps its place until its next request says what it asks for now: otherwise others would be
    # granted in between what it needs for its next operation.
    record.ask_since = limit.now
    enqueue(limit, name, record)
    return -1


def _room_at(limit: Limit, missing: float, interval: int) -> int:
    """How soon there is room for `missing` more, as far as entries that expire make it."""
    for at, cost in limit.ledger.entries:
        missing -= cost
        if missing <= FLOAT_ERROR * limit.in_force:
            return max(1, min(4 * interval, at + limit.terms.counts - limit.now))
    return interval
