"""Permits: one-shot rights, spent from the pool, and the queue of those who wait for one. Pure.

A permit is the right to start one batch of a given cost within a few hundred milliseconds. Its
cost counts in the pool's ledger from the start, as if used at the last moment; the next request
of its holder reports the actual start, and the entry is corrected.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence

from limiters._support.validation import MAX_AMOUNT
from limiters.leases._coordinator.shares import (
    NeedShape,
    Share,
    dominant_share,
    share_of,
)
from limiters.leases._coordinator.state import (
    BoundPermit,
    BoundState,
    Holding,
    Limit,
    Record,
    Waiter,
)
from limiters.leases._format import (
    CREDIT_PERIODS,
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


def needs_of(limit: Limit, record: Record) -> NeedShape:
    """What an instance needs of each bound."""
    return NeedShape(record.needs, record.weight, limit.wholes)


def fair_share(limit: Limit, record: Record) -> Share:
    """What an instance may have of the limit, by shares and permits together."""
    return share_of(needs_of(limit, record), limit.fair)


def entitlement(limit: Limit, record: Record) -> int:
    """How much of its dominant bound its fair share would be if it needed as much as it could get,
    in parts of UNITS."""
    return dominant_share(record.needs, record.weight, limit.fair, limit.wholes)


def time_for(limit: Limit, record: Record, costs: Sequence[float]) -> float:
    """The time in which its fair share makes up for a cost: for that in the bound of which it needs
    the largest part. By the largest part of each batch, those that cost much of one bound and those
    that cost much of another would be charged more, together, than they use of any."""
    at = dominant(limit, record, costs)
    if at is None:
        return 0.0
    bound, fair = limit.bounds[at], entitlement(limit, record)
    return costs[at] * bound.terms.period / (fair * bound.worth(limit.now))


def dominant(limit: Limit, record: Record, costs: Sequence[float]) -> int | None:
    """The rate of which an instance needs the largest part, among those that have a cost."""
    found, most = None, -1.0
    for at, (bound, one, cost) in enumerate(zip(limit.bounds, record.holdings, costs, strict=True)):
        part = one.need / bound.whole if cost > 0 and not bound.terms.slots else -1.0
        if part > most:
            found, most = at, part
    return found


def lives_on_permits(limit: Limit, record: Record) -> bool:
    """Whether a share is of little use to an instance: less than it needs, and too few batches."""
    fair = fair_share(limit, record)
    return any(
        math.floor(part * (bound.ease if fair.limited else 1.0)) * bound.worth(limit.now)
        < max(
            (limit.few_batches(bound, record) if fair.limited else 1) * one.piece,
            one.ask if record.gathers else 0.0,
        )
        for bound, one, part in zip(limit.bounds, record.holdings, fair.parts, strict=True)
        if not bound.terms.slots
    )


def eased(limit: Limit, record: Record, share: Share, at: int) -> float:
    """How much of a bound an instance may hold, before that is rounded down. If it is limited by
    another bound, it may be more than its mix uses on average, as far as there is more: what it
    uses while it has more slots than on average, and twice as much besides as the number of its
    batches varies by."""
    bound, one, part = limit.bounds[at], record.holdings[at], share.parts[at]
    if not share.limited or bound.ease == 1 or part <= 0:
        return part
    slots = slots_of_batch(bound, one) if bound.terms.slots else 0
    batch = float(slots) if slots else max(0.0, one.piece) / bound.worth(limit.now)
    used = part * _stretch(limit, record, share)
    return min(part * bound.ease, used + 2 * math.sqrt(used * batch) + batch)


def _stretch(limit: Limit, record: Record, share: Share) -> float:
    """How many times its share of slots an instance has at times, as it takes turns with them."""
    most = 1.0
    for bound, one, part in zip(limit.bounds, record.holdings, share.parts, strict=True):
        if bound.terms.slots and bound.fair.weight and part > 0:
            piece = slots_of_batch(bound, one)
            most = max(most, (math.floor(part / piece) + 1) * piece / part)
    return most


def slots_of_batch(bound: BoundState, one: Holding) -> int:
    """How many slots a batch of an instance takes: at least one."""
    return max(1, min(bound.whole, math.ceil(one.piece)))


def waiter(limit: Limit, name: str, record: Record) -> Waiter | None:
    """Its place in the queue; None if it does not wait, or has not been heard of for too long."""
    silent = record.seen + 2 * record.interval + SILENT_MS
    if not record.asks or silent < limit.now:
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


def _credit(limit: Limit) -> int:
    return CREDIT_PERIODS * limit.longest_window


def keep_pace(limit: Limit, elapsed: int) -> None:
    """The clock of turns goes slower while one who lives on permits is too late."""
    turns = [one.turn for one in limit.queue if not one.later and one.silent >= limit.now]
    too_late = limit.turns_at - _credit(limit) - min(turns, default=math.inf)
    limit.behind += max(0.0, min(too_late, elapsed * (1 - LEAST_PACE)))


def kept_aside(limit: Limit) -> list[int]:
    """How much of each pool is kept for permits: of the batches that are due of those who live on
    them, in order, as many as their fair shares are worth; at least the first one. So they do not
    starve those that hold shares. Between their turns the others may have it all. If the first is
    late, batches do not fit together: those whose turn comes within the same time count, too."""
    waiting = on_permits(limit)
    if not waiting or waiting[0].turn > limit.turns_at:
        return [0] * len(limit.bounds)
    soon = 2 * limit.turns_at - waiting[0].turn
    due = [one for one in waiting if one.turn <= soon]
    wholes = [0.0 if one.terms.slots else one.in_force(limit.now) for one in limit.bounds]
    worths = [one.worth(limit.now) for one in limit.bounds]
    fairs, asides = [0.0] * len(wholes), [0.0] * len(wholes)
    for one in due:
        for at, whole in enumerate(wholes):
            fairs[at] = min(whole, fairs[at] + one.fair * worths[at])
    for one in due:
        late, flow, first = math.inf, math.inf, not any(asides)
        late_for = max(0.0, limit.turns_at - one.turn)
        asks = [
            max(ask, FLOAT_ERROR * whole) if ask else 0.0
            for ask, whole in zip(one.ask, wholes, strict=True)
        ]
        for bound, ask, worth in zip(limit.bounds, asks, worths, strict=True):
            if ask:
                fair, period = one.fair * worth, bound.terms.period
                late = min(late, late_for * fair / (ask * period))
                flow = min(flow, fair / ask / period)
        numbers = [0] * len(wholes)
        for at, (ask, whole) in enumerate(zip(asks, wholes, strict=True)):
            if ask:
                # As many as fit into a window of this bound, of those that all bounds let go.
                batches = flow * limit.bounds[at].terms.period * (1 + FLOAT_ERROR)
                batches = min(late, one.fair * worths[at] / ask, batches)
                room = min((fairs[at] - asides[at]) / ask + ROUNDED_UP, (whole - asides[at]) / ask)
                numbers[at] = min(1 + math.floor(batches), max(math.floor(room), 1 if first else 0))
        if all(number or not ask for number, ask in zip(numbers, asks, strict=True)):
            for at, (ask, number) in enumerate(zip(asks, numbers, strict=True)):
                asides[at] += ask * number
    return [
        math.ceil(min(aside / worth, UNITS)) for aside, worth in zip(asides, worths, strict=True)
    ]


def follow_fair_share(limit: Limit, record: Record) -> None:
    """What its fair share has still to make up for stays the same cost when that share changes. A
    new instance, where capacity is short, saves for its first batch: otherwise it would pay to come
    back under a new name for each one."""
    fair = entitlement(limit, record)
    fairs = [0.0 if one.terms.slots else fair * one.worth(limit.now) for one in limit.bounds]
    rates = [
        one
        for bound, one in zip(limit.bounds, record.holdings, strict=True)
        if not bound.terms.slots
    ]
    if not any(one.fair for one in rates):
        if not record.asks:
            return
        if limit.is_short:
            record.turn = max(record.turn, limit.turns_at + time_for(limit, record, record.ask))
    elif record.turn > limit.turns_at:
        ratio = max(
            one.fair / fair if fair else 0.0
            for one, fair in zip(record.holdings, fairs, strict=True)
        )
        record.turn = limit.turns_at + (record.turn - limit.turns_at) * ratio
    record.turn = min(record.turn, LATEST)
    for bound, one, worth in zip(limit.bounds, record.holdings, fairs, strict=True):
        if not bound.terms.slots:
            one.fair = worth


def spent_by_share(limit: Limit, record: Record, request: Request, elapsed: int) -> None:
    """What an instance spent on its share delays its next permit, too: both together are what it
    may have. Waiting costs no credit; only an instance that asks for nothing loses what is too old.
    """
    if not limit.is_short:
        record.turn = max(record.turn, limit.turns_at)
        return
    if limit.now - elapsed < limit.short_since:
        # There was enough until now: an instance that has spent begins to save for its next batch,
        # so that those that have not spent go first.
        if any(one.spent > 0 for one in request.bounds):
            takes = time_for(limit, record, [max(one.ask, one.piece) for one in record.holdings])
            record.turn = min(max(record.turn, limit.turns_at + takes), LATEST)
        return
    if not record.asks:
        record.turn = max(record.turn, limit.turns_at - _credit(limit))
    by_share = [max(0.0, one.spent - one.by_permit) for one in request.bounds]
    at = dominant(limit, record, by_share)
    if at is not None:
        worth = entitlement(limit, record) * limit.bounds[at].worth(limit.now)
        record.turn += elapsed * min(1.0, by_share[at] / worth)


def correct(limit: Limit, record: Record, request: Request) -> None:
    """The last permit is over; if the request reports how it was used, its entries are corrected:
    for the fraction that has stayed in the pool."""
    number, record.permit = record.permit, 0
    reported = number and request.permit == number
    for bound, one, said in zip(limit.bounds, record.holdings, request.bounds, strict=True):
        permit, one.permit = one.permit, BoundPermit()
        if not reported or not permit.cost:
            continue
        stayed = bound.stayed / permit.stayed if bound.wave == permit.wave else 0.0
        bound.ledger.subtract(permit.at, permit.cost * stayed)
        period = bound.terms.period
        used = [
            (permit.at if age < 0 else min(permit.at, slice_end(limit.now - age, period)), cost)
            for age, cost in said.permit_spent
        ]
        since = limit.now - bound.terms.counts
        bound.ledger.merge(believed(used, permit.cost, since), stayed)


def handed_over(limit: Limit, at: int, part: float) -> None:
    """`part` of a pool was granted: entries of permits are no longer in it as a whole."""
    bound = limit.bounds[at]
    bound.stayed *= 1 - part
    if bound.stayed < MIN_STAYED:
        bound.stayed, bound.wave = 1.0, bound.wave + 1


def grant(limit: Limit, name: str, record: Record, request: Request) -> int:
    """A permit, if it is this one's turn and there is room in all bounds: for all of them, or for
    none. When to ask again; -1 for never."""
    clock = limit.turns_at
    due = line(limit)
    names = [one.instance for one in due]
    if name not in names:
        if record.turn <= clock:  # others have waited longer: the next sync is soon enough
            return -1
        return min(4 * record.interval, math.ceil(record.turn - clock) + 1)
    first = due[: names.index(name)]
    lacking = [
        _room_at(limit, at, missing, record.interval)
        for at in range(len(limit.bounds))
        if record.holdings[at].ask and (missing := _missing(limit, at, record, first)) > 0
    ]
    if lacking:
        return max(lacking)
    turn = clock
    if limit.is_short:
        takes = time_for(limit, record, record.ask)
        oldest = clock - max(takes, _credit(limit))
        turn = min(max(oldest, record.turn), clock) + takes
    record.turn = turn
    limit.next_id += 1
    record.permit = limit.next_id
    for bound, one in zip(limit.bounds, record.holdings, strict=True):
        if one.ask:
            latest = limit.now + request.valid + bound.terms.running
            at = slice_end(latest, bound.terms.period)
            bound.ledger.add(at, one.ask)
            one.permit = BoundPermit(at, one.ask, bound.stayed, bound.wave)
            one.refundable = min(one.refundable + one.ask, MAX_AMOUNT)
    # It keeps its place until its next request says what it asks for now: otherwise others would be
    # granted in between what it needs for its next operation.
    record.ask_since = limit.now
    enqueue(limit, name, record)
    return -1


def _missing(limit: Limit, at: int, record: Record, first: Sequence[Waiter]) -> float:
    """How much room the pool of a bound lacks for what an instance asks for, behind `first`; 0 if
    it lacks nothing that matters."""
    bound, ask = limit.bounds[at], record.holdings[at].ask
    room = bound.pool * bound.worth(limit.now)
    room -= bound.ledger.total(limit.now - bound.terms.counts)
    for one in first:
        room -= one.ask[at]
    enough = room >= ask - FLOAT_ERROR * bound.in_force(limit.now)
    return 0.0 if enough else ask - room


def _room_at(limit: Limit, at: int, missing: float, interval: int) -> int:
    """How soon there is room for `missing` more, as far as entries that expire make it."""
    bound = limit.bounds[at]
    for stamp, cost in bound.ledger.entries:
        missing -= cost
        if missing <= FLOAT_ERROR * bound.in_force(limit.now):
            return max(1, min(4 * interval, stamp + bound.terms.counts - limit.now))
    return interval
