"""Mistakes on purpose: each takes one rule out of the product, and has to be found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from limiters._bound_share import RateShare
from limiters._budgets import permit_corrections
from limiters._budgets.spend import Tenure
from limiters._instance_share import InstanceShare, News
from limiters.leases._confirmed_clock import ConfirmedClock
from limiters.leases._coordinator import Coordinator, certainty, permits
from limiters.leases._coordinator.state import Limit, Record, Registry
from limiters.leases._format import DRIFT, NEVER, TOLERANCE_MS
from limiters.leases._ledger import Ledger
from limiters.leases._messages import BoundReply, Kind, Reply, Request, Terms, altered, usable_lease

Mutant = Callable[[pytest.MonkeyPatch], None]


def set_to(target: object, name: str, value: Any) -> Mutant:
    """A mistake that replaces one function of the product."""
    return lambda patch: patch.setattr(target, name, value)


# Ledgers and amounts.


def nothing_comes_along(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "split", lambda ledger, part: Ledger())


def given_up_at_expiry(patch: pytest.MonkeyPatch) -> None:
    answer = Coordinator._answer

    def mutant(  # type: ignore[no-untyped-def]
        self: Coordinator,
        limit: Limit,
        request: Request,
        record: Record,
        elapsed: int,
        **known: bool,
    ):
        reply = answer(self, limit, request, record, elapsed, **known)
        record.gone = record.until - limit.terms.counts
        limit.due = min(limit.due, record.until)
        return reply

    patch.setattr(Coordinator, "_answer", mutant)


def no_quarantine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(certainty, "end", lambda limit, default_span: NEVER)


def whole_entries(newest: bool) -> Mutant:
    def split(ledger: Ledger, part: float) -> Ledger:
        taken, want = Ledger(), math.fsum(cost for _, cost in ledger.entries) * part
        for at, cost in sorted(ledger.entries, reverse=newest):
            moved = min(cost, want)
            want -= moved
            taken.add(at, moved)
            ledger.subtract(at, moved)
        return taken

    return set_to(Ledger, "split", split)


def rounded_again(patch: pytest.MonkeyPatch) -> None:
    """Inherited entries are handed over by their age, like one's own."""
    part_with, receive = RateShare.part_with, RateShare.receive
    heard: dict[int, tuple[int, float]] = {}

    def noted(self: RateShare, reply: BoundReply, server_now: int, now: float) -> None:
        heard[id(self)] = server_now, now
        receive(self, reply, server_now, now)

    def mutant(self: RateShare, released: int, now: float, *, leaving: bool) -> Any:
        own, stamped = part_with(self, released, now, leaving=leaving)
        if id(self) not in heard:
            return own, stamped
        told, at = heard[id(self)]
        server_now = told + math.floor((now - at) * 1000)
        width = max(1, self.terms.period // permit_corrections.HISTORY_SLICES)
        aged = [((server_now - at) // width * width, cost) for at, cost in stamped]
        return tuple(sorted((*own, *((max(0, age), cost) for age, cost in aged)))), ()

    patch.setattr(RateShare, "receive", noted)
    patch.setattr(RateShare, "part_with", mutant)


def slots_lost_on_release(patch: pytest.MonkeyPatch) -> None:
    """Slots that an instance gives back belong to no instance, and their sum is never counted."""
    release = Coordinator._release

    def mutant(self: Coordinator, limit: Limit, at: int, *rest: Any) -> None:
        before = limit.bounds[at].pool
        release(self, limit, at, *rest)
        if limit.bounds[at].terms.slots:
            limit.bounds[at].pool = before

    patch.setattr(Coordinator, "_release", mutant)
    patch.setattr(certainty, "agrees", lambda limit: True)


# Permits.


def permit_does_not_count(patch: pytest.MonkeyPatch) -> None:
    grant = permits.grant

    def mutant(limit: Limit, name: str, record: Record, request: Request) -> int:
        before = record.permit
        back = grant(limit, name, record, request)
        if record.permit != before and record.permit:
            for bound, one in zip(limit.bounds, record.holdings, strict=True):
                bound.ledger.subtract(one.permit.at, one.permit.cost)
        return back

    patch.setattr(permits, "grant", mutant)


def corrected_in_full(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(permits, "handed_over", lambda limit, at, part: None)


def permit_outlasts_a_lease(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(InstanceShare, "_valid", property(lambda self: 3000))


# Confirmed time.


def clock_believed(patch: pytest.MonkeyPatch) -> None:
    def mutant(self: Coordinator, request: Request | None, server: str, clock: int) -> int:
        self._swallowed = False
        stored = self._stored_time(server)
        return clock if stored is None else max(stored[0], clock - stored[1])

    patch.setattr(Coordinator, "_time", mutant)


def doubt_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A request that was not believed is not remembered."""
    store = Coordinator._store_time
    patch.setattr(
        Coordinator, "_store_time", lambda self, server, now, skew: store(self, server, now, 0)
    )


def confirmed_by_the_last(received: bool) -> Mutant:
    """Only the last exchange confirms the server's clock."""

    def mutant(self: ConfirmedClock, server: str, now: float, span: float) -> int:
        known = [one for one in self.exchanges if one.server == server][-1:]
        if not known:
            return -1
        last = known[0]
        since = now - last.sent - (last.took if received else 0)
        at = last.told + since * 1000 * (1 + 2 * DRIFT)
        return math.floor(at + max(TOLERANCE_MS, last.took * 500))

    return set_to(ConfirmedClock, "at", mutant)


# Certainty.


class AnyNonce(str):
    """Equal to every other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = str.__hash__


def no_nonce(patch: pytest.MonkeyPatch) -> None:
    challenge = Coordinator._challenge

    def mutant(self: Coordinator, limit: Limit, record: Any, request: Request, *rest: Any) -> Any:
        claim = altered(request, nonce=AnyNonce(request.nonce))
        return challenge(self, limit, record, claim, *rest)

    patch.setattr(Coordinator, "_challenge", mutant)


def nonce_of_any_takeover(patch: pytest.MonkeyPatch) -> None:
    challenge = Coordinator._challenge

    def mutant(self: Coordinator, limit: Limit, record: Any, request: Request, *rest: Any) -> Any:
        claim = altered(request, nonce=AnyNonce(request.nonce)) if request.nonce else request
        return challenge(self, limit, record, claim, *rest)

    patch.setattr(Coordinator, "_challenge", mutant)


def first_statement_stays(patch: pytest.MonkeyPatch) -> None:
    admit = Coordinator._admit

    def mutant(
        self: Coordinator, limit: Limit, record: Record | None, request: Request, uncertain: bool
    ) -> Record:
        if record is not None:
            request = altered(request, units=record.holdings[0].units)
        return admit(self, limit, record, request, uncertain)

    patch.setattr(Coordinator, "_admit", mutant)


def missing_returns_at_once(patch: pytest.MonkeyPatch) -> None:
    def mutant(self: Coordinator, limit: Limit, at: int, units: int) -> None:
        limit.bounds[at].pool += units

    patch.setattr(Coordinator, "_return_later", mutant)


def no_gap_rule(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(certainty, "note_gap", lambda limit: None)


def other_servers_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(certainty, "is_news", lambda limit, request: False)


def deletes_without_the_period(patch: pytest.MonkeyPatch) -> None:
    def mutant(limit: Limit, default_span: int) -> int:
        return max([limit.now, *(one.until for one in limit.records.values() if one.holds)])

    patch.setattr(certainty, "last_use", mutant)


def deletes_without_the_doubt(patch: pytest.MonkeyPatch) -> None:
    def mutant(limit: Limit, default_span: int) -> int:
        holders = [one for one in limit.records.values() if one.holds]
        return max([limit.now, *(certainty.gone_at(limit, one) for one in holders)])

    patch.setattr(certainty, "last_use", mutant)


def deletes_what_was_claimed(patch: pytest.MonkeyPatch) -> None:
    def mutant(limit: Limit, default_span: int) -> int:
        return max(limit.now, certainty.end(limit, default_span))

    patch.setattr(certainty, "last_use", mutant)


def repeated_with_a_grant(patch: pytest.MonkeyPatch) -> None:
    """Whether a request is a repeated one is found out before its sender is given up."""
    serve = Coordinator._serve

    def mutant(self: Coordinator, request: Request, server: str, now: int) -> Reply:
        limit = self.limit
        known = limit.records.get(request.instance) if limit is not None else None
        reply = serve(self, request, server, now)
        assert self.limit is not None
        record = self.limit.records.get(request.instance)
        if known is not None and known.seq == request.seq and record not in (None, known):
            assert record is not None
            record.gone = known.gone
            self.limit.due = min(self.limit.due, record.gone)
        return reply

    patch.setattr(Coordinator, "_serve", mutant)


def learns_nothing_of_leases(patch: pytest.MonkeyPatch) -> None:
    """The terms of the first to come say when the uncertainty ends."""
    doubt, end = certainty.doubt, certainty.end
    ends: dict[int, int] = {}

    def mutant(limit: Limit, *rest: Any) -> None:
        doubt(limit, *rest)
        ends[id(limit)] = limit.since + limit.terms.span

    patch.setattr(certainty, "doubt", mutant)
    patch.setattr(certainty, "end", lambda limit, default: ends.get(id(limit), end(limit, default)))


def terms_without_version(patch: pytest.MonkeyPatch) -> None:
    sync = Coordinator.sync

    def mutant(self: Coordinator, request: Request, server: str, clock: int) -> Reply:
        terms = altered(request.terms, version=min(request.terms.version, 1))
        return sync(self, altered(request, terms=terms), server, clock)

    patch.setattr(Coordinator, "sync", mutant)


def unknown_amounts_ignored(patch: pytest.MonkeyPatch) -> None:
    challenge = Coordinator._challenge

    def mutant(
        self: Coordinator, limit: Limit, record: Record | None, request: Request, *rest: Any
    ) -> Reply | None:
        if certainty.remaining(limit, self.default_span) == 0:
            request = altered(request, left=0)
        return challenge(self, limit, record, request, *rest)

    patch.setattr(Coordinator, "_challenge", mutant)


def goes_on_when_refused(patch: pytest.MonkeyPatch) -> None:
    answered = InstanceShare.answered

    def mutant(self: InstanceShare, reply: Reply, sent_at: float, now: float) -> News:
        held = now < self.tenure.until
        news = answered(self, reply, sent_at, now)
        if reply.kind is Kind.REFUSED and held:
            self.tenure = Tenure(sent_at + usable_lease(self.terms.lease) / 1000)
        return news

    patch.setattr(InstanceShare, "answered", mutant)


# The registry.


def _vouches(age: bool, same_server: bool, names: bool) -> Mutant:
    def mutant(self: Coordinator, terms: Terms, server: str, now: int) -> bool:
        registry = self.registry
        if registry is None or (same_server and registry.server != server):
            registry = self.registry = Registry(server, now)
        old = registry.since + max(terms.span, self.default_span) <= now
        free = registry.names.get(self.name, NEVER) <= now
        return (old or not age) and (free or not names)

    return set_to(Coordinator, "_vouched_for", mutant)


registry_of_any_age = _vouches(age=False, same_server=True, names=True)
registry_of_any_server = _vouches(age=True, same_server=False, names=True)
registry_without_names = _vouches(age=True, same_server=True, names=False)
