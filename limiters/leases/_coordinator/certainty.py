"""When a coordinator may grant, and who may claim what it holds. Pure.

A limit is *uncertain* from when something may have been lost, or another server may have been in
charge, until every lease that may be out has ended and its spending no longer counts. Meanwhile
nothing new is granted, and instances claim what they hold: with the nonce that a challenge gave
them, so that the claim was composed after the takeover. Times of one server are never used at
another; what crosses servers is a duration.
"""

from __future__ import annotations

from dataclasses import replace

from limiters.leases._coordinator.shares import Level
from limiters.leases._coordinator.state import Limit, Ramp
from limiters.leases._format import NEVER, UNITS
from limiters.leases._ledger import Ledger
from limiters.leases._messages import Request, Terms

DISAGREES = "what is stored of it did not agree"


def new_limit(terms: Terms, server: str, now: int, token: str) -> Limit:
    """A limit that nobody has used yet."""
    limit = Limit(server, token, terms, now, last=now)
    _adopt(limit, terms)
    _start(limit, now, token)
    return limit


def agrees(limit: Limit) -> bool:
    """Whether the amounts sum to the whole limit: otherwise a part of what is stored was lost."""
    held = sum(one.units for one in limit.records.values())
    return limit.pool + held + sum(units for _, units in limit.returning) == UNITS


def doubt(limit: Limit, server: str, now: int, token: str, cause: str) -> None:
    """Becomes uncertain: forgets who holds what, with a new nonce."""
    if limit.server != server:
        if limit.ramp.rate > 0:  # it began at a time of the other server
            limit.ramp = Ramp(limit.in_force, now, limit.ramp.rate)
        limit.server, limit.not_before, limit.peak_until = server, NEVER, NEVER
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
    limit.pool, limit.ledger, limit.returning = UNITS, Ledger(), []
    limit.stayed, limit.wave = 1.0, limit.wave + 1
    limit.records, limit.queue = {}, []
    limit.kept_until = limit.shares_at = NEVER
    limit.due = now
    limit.fair = limit.level = Level()
    limit.needs, limit.spare, limit.short_since, limit.behind = 0, 0.0, NEVER, 0.0


def _adopt(limit: Limit, terms: Terms) -> None:
    """Follows other terms. A capacity that was rising goes on from what was in force."""
    rising = terms.rising > 0 and 0 < terms.in_force < terms.capacity
    limit.ramp = Ramp(terms.in_force, limit.now, terms.rising) if rising else Ramp()
    limit.terms = replace(terms, in_force=0.0, rising=0.0)


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
    if now < end(limit, default_span) or limit.pool < UNITS or limit.returning:
        return False
    return not any(at > now - limit.terms.counts for at, _ in limit.ledger.entries)


def is_news(limit: Limit, request: Request) -> bool:
    """Whether another server answered the sender after this one took over."""
    return request.server not in ("", limit.server) and limit.now - request.age > limit.since


def learn_terms(limit: Limit, request: Request, uncertain: bool) -> None:
    """Terms of a higher rank replace others while uncertain; and the longest span of a lease that
    may be out bounds the uncertainty."""
    if not uncertain:
        limit.proven = limit.terms.span
        return
    if request.left > 0 and request.units:
        limit.proven = max(limit.proven, request.terms.span)
    if request.terms.rank > limit.terms.rank:
        _adopt(limit, request.terms)


def last_use(limit: Limit, default_span: int) -> int:
    """Up to then something may be out, or count: after a change by an operator nothing is granted
    before."""
    ends = [limit.now, end(limit, default_span)]
    ends += [max(one.gone, limit.kept_until) for one in limit.records.values() if one.units]
    ends += [at + limit.terms.counts for at, _ in limit.ledger.entries]
    ends += [at for at, _ in limit.returning]
    return max(ends)
