"""When a coordinator may grant, and who may claim what it holds. Pure.

A limit is *uncertain* from when something may have been lost, or another server may have been in
charge, until every lease that may be out has ended and its spending no longer counts. Meanwhile
nothing new is granted, and instances claim what they hold: with the nonce that a challenge gave
them, so that the claim was composed after the takeover. Times of one server are never used at
another; what crosses servers is a duration.
"""

from __future__ import annotations

from dataclasses import replace

from limiters.leases._coordinator.state import Limit, Ramp, Record
from limiters.leases._format import LATEST, NEVER
from limiters.leases._messages import Request, Terms

DISAGREES = "what is stored of it did not agree"


def new_limit(terms: Terms, server: str, now: int, token: str) -> Limit:
    """A limit that nobody has used yet."""
    limit = Limit(server, token, terms, now, last=now)
    _adopt(limit, terms)
    _start(limit, now, token)
    return limit


def agrees(limit: Limit) -> bool:
    """Whether the amounts sum to the whole of each bound: otherwise a part of what is stored was
    lost."""
    for at, bound in enumerate(limit.bounds):
        held = sum(one.holdings[at].units for one in limit.records.values())
        returning = sum(units for _, units in bound.returning)
        if bound.pool + held + returning != bound.whole:
            return False
    return True


def doubt(limit: Limit, server: str, now: int, token: str, cause: str) -> None:
    """Becomes uncertain: forgets who holds what, with a new nonce."""
    if limit.server != server:
        for bound in limit.bounds:
            if bound.ramp.rate > 0:  # it began at a time of the other server
                bound.ramp = Ramp(bound.in_force(limit.now), now, bound.ramp.rate)
            bound.peak_until = NEVER
        limit.server, limit.not_before = server, NEVER
        limit.now, limit.skew = now, 0
    limit.since = limit.last = now
    start_over(limit, now, token, cause)


def start_over(limit: Limit, now: int, token: str, cause: str) -> None:
    """Forgets who holds what: whoever holds something claims it, with the new nonce."""
    limit.doubted, limit.cause = True, cause
    limit.interval = 0  # of those who are forgotten, maybe under a longer lease
    _start(limit, now, token)


def _start(limit: Limit, now: int, token: str) -> None:
    limit.now, limit.nonce = now, token
    limit.next_id = max(limit.next_id, now * 1000)  # also after everything was forgotten
    for bound in limit.bounds:
        bound.start_over(now)
    limit.records, limit.queue = {}, []
    limit.clear_round()
    limit.apart = False
    limit.shares_at = limit.short_since = limit.gap_since = limit.gap_until = NEVER
    limit.older_gap_since = limit.older_gap_until = NEVER
    limit.due, limit.collected, limit.next_due = now, 0, LATEST
    limit.behind = 0.0


def _adopt(limit: Limit, terms: Terms) -> None:
    """Follows other terms. A capacity that was rising goes on from what was in force."""
    configured = tuple(replace(one, in_force=0.0, rising=0.0) for one in terms.bounds)
    limit.follow(replace(terms, bounds=configured))
    for bound, one in zip(limit.bounds, terms.bounds, strict=True):
        rising = one.rising > 0 and 0 < one.in_force < one.capacity
        bound.ramp = Ramp(one.in_force, limit.now, one.rising) if rising else Ramp()
    limit.resize()


def end(limit: Limit, default_span: int) -> int:
    """Nothing is granted before this time."""
    longest = max(limit.proven, limit.terms.span, default_span)
    return max(limit.not_before, limit.since + longest)


def remaining(limit: Limit, default_span: int) -> int:
    """For how long it stays uncertain; 0 if it is certain."""
    return max(0, end(limit, default_span) - limit.now)


def nothing_is_out(limit: Limit, now: int, default_span: int) -> bool:
    """Whether the limit is certain, and nobody holds, spends or waits for anything: then it does
    not matter how far the server's clock is believed."""
    if now < end(limit, default_span):
        return False
    return all(
        bound.pool == bound.whole
        and not bound.returning
        and not any(at > now - bound.terms.counts for at, _ in bound.ledger.entries)
        for bound in limit.bounds
    )


def is_news(limit: Limit, request: Request) -> bool:
    """Whether another server answered the sender after this one took over."""
    return request.server not in ("", limit.server) and limit.now - request.age > limit.since


def learn_terms(limit: Limit, request: Request, default_span: int, uncertain: bool) -> None:
    """Terms of a higher rank replace others while uncertain; and the longest span of a lease that
    may be out bounds the uncertainty."""
    if not uncertain:
        limit.proven = limit.terms.span
        return
    if request.left > 0 and request.holds:
        limit.proven = max(limit.proven, request.terms.span)
    if request.terms.rank > limit.terms.rank:
        if not limit.has_bounds_of(request.terms):
            # What was claimed so far is of bounds that are no more. It may be spent all the same.
            limit.not_before = last_use(limit, default_span)
            _start(limit, limit.now, limit.nonce)
        _adopt(limit, request.terms)


def last_use(limit: Limit, default_span: int) -> int:
    """Up to then something may be out, or count: after a change by an operator nothing is granted
    before."""
    ends = [limit.now, end(limit, default_span)]
    for at, bound in enumerate(limit.bounds):
        ends += [
            returns_at(limit, one, at) for one in limit.records.values() if one.holdings[at].units
        ]
        ends += [stamp + bound.terms.counts for stamp, _ in bound.ledger.entries]
        ends += [back for back, _ in bound.returning]
    return max(ends)


def note_gap(limit: Limit) -> None:
    """Since the last request the time could not be confirmed: another server may have been in
    charge, and have renewed each lease that had not ended by then.

    Two gaps are kept apart if what the first one extended had ended when the second began. If there
    would be three, the last two count as one, until the first can delay no instance any more.
    """
    longest = max(one.terms.lasting for one in limit.bounds)
    if limit.gap_until < limit.last and limit.older_gap_until + longest <= limit.now:
        limit.older_gap_since, limit.older_gap_until = limit.gap_since, limit.gap_until
        limit.gap_since = limit.last
    limit.gap_until = max(limit.gap_until, limit.now + limit.terms.lease)


def lease_end(limit: Limit, record: Record) -> int:
    """When the lease of a silent instance has ended, also if another server renewed it in a gap."""
    end = record.gone
    if end >= limit.older_gap_since:
        end = max(end, limit.older_gap_until)
    return max(end, limit.gap_until) if end >= limit.gap_since else end


def returns_at(limit: Limit, record: Record, at: int) -> int:
    """When what a silent instance holds of a bound comes back: its lease has ended, and none of its
    charges there count any more."""
    return lease_end(limit, record) + limit.bounds[at].terms.lasting


def gone_at(limit: Limit, record: Record) -> int:
    """When nothing is left of a silent instance. One that holds nothing is known a little longer:
    as long as its shortest charges count."""
    held = [at for at, one in enumerate(record.holdings) if one.units]
    shortest = min(one.terms.lasting for one in limit.bounds)
    lasting = max((limit.bounds[at].terms.lasting for at in held), default=shortest)
    return lease_end(limit, record) + max(shortest, lasting)
