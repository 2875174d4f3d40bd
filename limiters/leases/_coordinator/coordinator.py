"""Serves the requests of one limit, one at a time. Pure: it is given the server's clock.

What keeps every window within the limit: for every holder (each instance, and the pool) the
entries that count at any time sum to at most what its amount is worth. Spending checks that, time
only removes entries, and a hand-over moves the same fraction of every entry. `docs/exactness.md`
has the proof, `certainty` the rules for failing servers and networks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from limiters._support.validation import MAX_AMOUNT
from limiters.leases._coordinator import certainty, division, permits, settlement, slot_rights
from limiters.leases._coordinator.state import Holding, Limit, Ramp, Record, Registry
from limiters.leases._format import (
    DEFAULT_SPAN,
    FORMAT,
    LATEST,
    MAX_INSTANCES,
    MAX_PERMIT_MS,
    MAX_TRIES,
    MOST_VISITS,
    NEVER,
    REGISTRY_SPANS,
    UNITS,
)
from limiters.leases._ledger import Ledger, believed, slice_end
from limiters.leases._messages import (
    BoundReply,
    BoundRequest,
    Kind,
    Reply,
    Request,
    Terms,
    check_partitions,
    checked,
)
from limiters.leases._terms_change import LimitChange
from limiters.leases._totals import Totals


class Coordinator:
    """One limit, and the server that keeps it: what a script sees. Not thread-safe.

    `server` is the identity of the server process and `clock` its clock, in milliseconds.
    """

    def __init__(
        self, name: str = "limit", *, default_span: int = DEFAULT_SPAN, registered: bool = True
    ) -> None:
        self.name = name
        self.default_span = default_span
        self.registered = registered
        """Whether the server keeps a registry of all of its limits; a cluster cannot."""
        self.limit: Limit | None = None
        self.registry: Registry | None = None
        self.totals = Totals()
        self._swallowed = False

    def sync(self, request: Request, server: str, clock: int) -> Reply:
        """Serves one request. Safe to be sent again."""
        if request.format != FORMAT:
            return Reply(Kind.FORMAT, seq=request.seq)
        valid = checked(request)
        if valid is None:
            return Reply(Kind.INVALID)
        request = valid
        now = self._time(request, server, clock)
        if now is None:
            return Reply(Kind.RETRY, seq=request.seq, server=server)
        reply = self._serve(request, server, now)
        self._store_time(server, now, clock - now)
        return replace(reply, seq=request.seq, server=server, now=now)

    # Confirmed time: how far the server's clock is believed.

    def _stored_time(self, server: str) -> tuple[int, int] | None:
        limit, registry = self.limit, self.registry
        if limit is not None and limit.server == server:
            return limit.now, limit.skew
        if registry is not None and registry.server == server and registry.now is not None:
            return registry.now, registry.skew
        return None

    def _store_time(self, server: str, now: int, skew: int) -> None:
        if self.limit is not None and self.limit.server == server:
            self.limit.now, self.limit.skew = now, skew
        if self.registry is not None and self.registry.server == server:
            self.registry.now, self.registry.skew = now, skew

    def _time(self, request: Request | None, server: str, clock: int) -> int | None:
        """The coordinator's time, by a clock that may step; None if the request has to be sent
        again, since nobody has confirmed so much time."""
        self._swallowed = False
        stored = self._stored_time(server)
        if stored is None:
            return clock
        before, skew = stored
        says = max(before, clock - skew)
        limit = self.limit
        mine = limit is not None and limit.server == server
        if (
            mine
            and limit is not None
            and certainty.nothing_is_out(limit, before, self.default_span)
        ):
            now = says
        elif request is not None and request.confirmed >= 0 and request.server == server:
            if says > request.confirmed and request.tries < MAX_TRIES:
                return None
            now = says if says <= request.confirmed else before
        else:
            interval = limit.interval if mine and limit else request.interval if request else 0
            now = says if says <= before + 2 * interval else before
        self._swallowed = now < says
        return now

    # Whether it may grant, and who may claim.

    def _open(self, terms: Terms, server: str, now: int, token: str) -> tuple[Limit, bool]:
        """The limit, and whether it is new; uncertain if nothing vouches for what is stored."""
        vouched = self._vouched_for(terms, server, now)
        limit = self.limit
        over = limit is not None and limit.deleted and now >= limit.not_before
        if limit is not None and limit.server == server and over:
            limit = None  # nothing of what was deleted can be out
        if limit is not None:
            if limit.server != server:
                certainty.doubt(limit, server, now, token, "the server is another one")
            return limit, False
        limit = self.limit = certainty.new_limit(terms, server, now, token)
        if self.registered and self.registry is not None and self.registry.server == server:
            limit.proven = self.registry.spans.get(self.name, 0)  # whatever was lost of it
        if not vouched:
            certainty.doubt(limit, server, now, token, "the limit is new to this server")
        return limit, True

    def _vouched_for(self, terms: Terms, server: str, now: int) -> bool:
        """Whether the registry proves that nothing of a limit that is not there can be out."""
        if not self.registered:
            return False
        registry = self.registry
        if registry is None or registry.server != server:
            registry = self.registry = Registry(server, now)
        settled = registry.since + max(terms.span, self.default_span)
        is_over = registry.names.get(self.name, NEVER) <= now
        return settled <= now and is_over and registry.has_room(self.name)

    def _serve(self, request: Request, server: str, now: int) -> Reply:
        token = f"{now}:{request.instance}:{request.seq}"
        limit, created = self._open(request.terms, server, now, token)
        limit.now = max(limit.now, now)
        limit.resize()
        seen = self._notice_gap(limit, token) + self._collect(limit, token)
        record = limit.records.get(request.instance)
        if record is not None and request.seq < record.seq:
            return Reply(Kind.STALE)
        again = record is not None and request.seq == record.seq
        challenged = self._challenge(limit, record, request, again, token)
        if challenged is not None:
            return challenged
        record = limit.records.get(request.instance)  # all are forgotten after news
        if record is None and len(limit.records) >= MAX_INSTANCES:
            return Reply(Kind.FULL)
        uncertain = certainty.remaining(limit, self.default_span) > 0
        certainty.learn_terms(limit, request, self.default_span, uncertain)
        record = limit.records.get(request.instance)  # all are forgotten with other bounds
        if not request.terms.agrees(limit.terms):
            return self._refuse(limit, request, uncertain)
        if again and record is not None:
            if record.given_is_lost or not self._divide(limit, seen, token):
                return Reply(Kind.CHALLENGE, nonce=limit.nonce)
            return self._answer(limit, request, record, 0, again=True, created=created)
        known = record is not None
        record = self._admit(limit, record, request, uncertain)
        record.counted = known and record.born == request.born
        if record.counted:
            self.totals.add(request.totals)
        elapsed = limit.now - record.seen
        self._hear(limit, record, request, uncertain)
        limit.deleted = False
        passed = limit.now - limit.last
        limit.last, limit.interval = limit.now, max(limit.interval, request.interval)
        if not self._divide(limit, seen, token):
            return Reply(Kind.CHALLENGE, nonce=limit.nonce)
        permits.follow_fair_share(limit, record)
        permits.enqueue(limit, request.instance, record)
        permits.keep_pace(limit, passed)
        reply = self._answer(limit, request, record, elapsed, again=False, created=created)
        permits.spent_by_share(limit, record, request, elapsed)
        self._write_ahead(limit)
        return reply

    def _challenge(
        self, limit: Limit, record: Record | None, request: Request, again: bool, token: str
    ) -> Reply | None:
        proves = request.nonce == limit.nonce
        news = not again and certainty.is_news(limit, request)
        if certainty.remaining(limit, self.default_span) > 0:
            if not proves:
                return Reply(Kind.CHALLENGE, nonce=limit.nonce)
            if news:
                limit.since = limit.now
            return None
        if limit.doubted:  # what was proven before proves nothing from now on
            limit.doubted, limit.nonce = False, token
        unknown = request.left > 0 and _holds_more(request, record)
        if news or (unknown and not again):
            if not proves:
                return Reply(Kind.CHALLENGE, nonce=limit.nonce)
            certainty.doubt(limit, limit.server, limit.now, token, "another server was in charge")
        return None

    def _refuse(self, limit: Limit, request: Request, uncertain: bool) -> Reply:
        nonce = limit.nonce if uncertain else ""
        return Reply(Kind.REFUSED, nonce=nonce, terms=limit.terms)

    def _notice_gap(self, limit: Limit, token: str) -> int:
        """If no request has confirmed the time since the last one, another server may have been in
        charge: instances whose leases it may have renewed are not given up before those end.
        Returns at how many instances it has looked."""
        seen = 0
        if limit.now - limit.last > 2 * limit.interval or self._swallowed:
            seen = self._collect(limit, token)
            certainty.note_gap(limit)
        return seen

    # Who holds what.

    def _collect(self, limit: Limit, token: str) -> int:
        """Gives up instances that were silent for too long; takes back what was missing. When
        something is due, requests look through some of the instances each, the last ones first,
        until all were seen. Returns at how many it has looked."""
        if limit.now < limit.due:
            return 0
        if limit.collected == 0:
            limit.next_due = LATEST
        end = len(limit.records) - limit.collected
        start = max(0, end - MOST_VISITS)
        some = list(limit.records.items())[start:end]
        if len(some) == len(limit.records) and not certainty.agrees(limit):
            certainty.doubt(limit, limit.server, limit.now, token, certainty.DISAGREES)
            return 0
        for bound in limit.bounds:
            bound.pool += sum(units for back, units in bound.returning if back <= limit.now)
            bound.returning = [one for one in bound.returning if one[0] > limit.now]
            limit.next_due = min([limit.next_due, *(back for back, _ in bound.returning)])
        visited = limit.visited
        for place, (name, record) in enumerate(some, start):
            for at, bound in enumerate(limit.bounds):
                if certainty.returns_at(limit, record, at) <= limit.now:
                    bound.pool += record.holdings[at].units
                    record.holdings[at].units = 0
            if certainty.gone_at(limit, record) <= limit.now:
                del limit.records[name]
                limit.visited -= place < visited
            else:
                limit.next_due = min(limit.next_due, self._due(limit, record))
                limit.collected += 1
        if limit.collected == len(limit.records):
            span = limit.now + limit.terms.span
            limit.due = limit.next_due if limit.next_due < LATEST else span
            limit.collected = 0
        limit.queue = [one for one in limit.queue if one.instance in limit.records]
        return len(some)

    def _due(self, limit: Limit, record: Record) -> int:
        """When something of an instance comes back, if it is silent from now on."""
        held = [at for at, one in enumerate(record.holdings) if one.units]
        ends = [certainty.returns_at(limit, record, at) for at in held]
        return min(ends, default=certainty.gone_at(limit, record))

    def _admit(
        self, limit: Limit, record: Record | None, request: Request, uncertain: bool
    ) -> Record:
        """The record of the sender. What it states replaces what was known, as far as rule 3 says:
        upwards only while uncertain."""
        if record is not None and not uncertain and request.born != record.born:
            # The last grant answered a delayed copy of a request, so the instance never received
            # it. Nothing of it was spent; return it to the pool.
            for at, (bound, one) in enumerate(zip(limit.bounds, record.holdings, strict=True)):
                if one.given_is_lost:
                    lost = min(one.granted, one.units)
                    one.units -= lost
                    self._return_later(limit, at, lost)
                bound.pool += one.units
                bound.ledger.merge(one.given.entries)
            evicted, record = record.evicted, None
        else:
            evicted = False
        if record is None:
            limit.next_id += 1
            limit.arrivals += 1
            record = Record(
                [Holding() for _ in limit.bounds],
                born=limit.next_id,
                arrival=limit.arrivals,
                seen=limit.now,
                turn=limit.turns_at,
                evicted=evicted,
            )
            record.gone = limit.now + limit.terms.lease
            limit.records[request.instance] = record
            if uncertain and request.left > 0:
                self._claim(limit, record, request)
            return record
        if uncertain and request.left > 0:
            self._claim(limit, record, request)
        for at, (one, said) in enumerate(zip(record.holdings, request.bounds, strict=True)):
            self._release(limit, at, one, said, uncertain)
            missing = one.units - said.units
            if (uncertain or request.ended) and missing > 0:
                one.units -= missing
                self._return_later(limit, at, missing)
        return record

    def _claim(self, limit: Limit, record: Record, request: Request) -> None:
        for bound, one, said in zip(limit.bounds, record.holdings, request.bounds, strict=True):
            units = max(0, min(said.units - one.units, bound.pool))
            one.units += units
            bound.pool -= units

    def _release(
        self, limit: Limit, at: int, one: Holding, said: BoundRequest, uncertain: bool
    ) -> None:
        bound, released = limit.bounds[at], min(said.released, one.units)
        if not released:
            return
        one.units -= released
        bound.pool += released
        if bound.terms.slots:  # what still runs was not released
            return
        period = bound.terms.period
        spent = [(slice_end(limit.now - max(0, age), period), cost) for age, cost in said.history]
        if not uncertain:  # else the stamps may be those of another server
            latest = slice_end(limit.now + MAX_PERMIT_MS + bound.terms.running, period)
            spent += [(min(stamp, latest), cost) for stamp, cost in said.stamped]
        since = limit.now - bound.terms.counts
        # While uncertain nobody knows what it was told elsewhere; and nothing is granted.
        most = released / UNITS * bound.most_in_force(limit.now)
        bound.ledger.merge(believed(spent, MAX_AMOUNT if uncertain else most, since))

    def _return_later(self, limit: Limit, at: int, units: int) -> None:
        """What an instance no longer states, and did not release: its charges there count."""
        bound = limit.bounds[at]
        back = slice_end(limit.now + bound.terms.lasting, bound.terms.period)
        if bound.returning and bound.returning[-1][0] == back:
            units += bound.returning.pop()[1]
        bound.returning.append((back, units))
        limit.falls_due(back)

    def _hear(self, limit: Limit, record: Record, request: Request, uncertain: bool) -> None:
        """What the instance wants from now on."""
        permits.correct(limit, record, request)
        settlement.settle(limit, record, request, uncertain)
        idle = request.leaving or record.evicted
        asks = not idle and _asks(limit, request)
        if asks and not record.asks:
            record.ask_since = limit.now - request.waited
        record.gathers = asks and request.gathers
        record.seq = request.seq
        record.seen, record.interval = limit.now, request.interval
        record.weight, record.label = request.weight, request.label
        for bound, one, said in zip(limit.bounds, record.holdings, request.bounds, strict=True):
            one.given, one.granted = Ledger(), 0
            one.spent, one.reserved = said.spent, said.reserved
            one.need = 0 if idle else _in_units(said.need, bound.worth(limit.now), bound.whole)
            one.piece = said.piece
            one.ask = said.ask if asks and not bound.terms.slots else 0.0

    # Shares.

    def _divide(self, limit: Limit, seen: int, token: str) -> bool:
        """Goes on with the division, after a look at `seen` instances. False if what is stored did
        not agree, so that everything was forgotten."""
        if division.go_on(limit, seen):
            return True
        certainty.doubt(limit, limit.server, limit.now, token, certainty.DISAGREES)
        return False

    def _pays_at_once(
        self, limit: Limit, record: Record, request: Request, rights: Sequence[int]
    ) -> bool:
        """Whether a share that is about to be granted has room for what an instance asks for, in
        all bounds in which what it holds has none."""
        asides = permits.kept_aside(limit)
        for at, (bound, one) in enumerate(zip(limit.bounds, record.holdings, strict=True)):
            if not one.ask or not request.bounds[at].lacks:
                continue
            units = min(rights[at] - one.units, bound.pool - asides[at])
            if units <= 0:
                return False
            spent = bound.ledger.total(limit.now - bound.terms.counts)
            if units / bound.pool * (bound.pool * bound.worth(limit.now) - spent) < one.ask:
                return False
        return True

    def _grant(self, limit: Limit, record: Record, rights: division.Rights) -> None:
        asides = permits.kept_aside(limit)
        for at, (bound, one) in enumerate(zip(limit.bounds, record.holdings, strict=True)):
            if bound.terms.slots:
                units = slot_rights.granted(bound, one, rights.slots[at], rights.units[at])
            else:
                units = min(rights.units[at] - one.units, bound.pool - asides[at])
            if units <= 0:
                continue
            if not bound.terms.slots:
                part = units / bound.pool
                bound.ledger.total(limit.now - bound.terms.counts)
                one.given = bound.ledger.split(part)
                one.granted = units if one.given.entries else 0
                permits.handed_over(limit, at, part)
            bound.pool -= units
            one.units += units
        for at, right in rights.slots.items():
            slot_rights.note_turn(limit, limit.bounds[at], record.holdings[at], right)

    # The answer.

    def _answer(
        self,
        limit: Limit,
        request: Request,
        record: Record,
        elapsed: int,
        *,
        again: bool,
        created: bool,
    ) -> Reply:
        rights = division.rights_of(limit, record)
        uncertain = certainty.remaining(limit, self.default_span)
        back = -1
        held = [one.units for one in record.holdings]
        if not uncertain and not again and not request.leaving:
            if record.asks and not self._pays_at_once(limit, record, request, rights.units):
                back = permits.grant(limit, request.instance, record, request)
            self._grant(limit, record, rights)
            if all(
                bound.terms.slots or right * bound.worth(limit.now) >= said.ask
                for bound, right, said in zip(
                    limit.bounds, rights.units, request.bounds, strict=True
                )
            ):
                back = -1  # its share will pay for it
            if any(
                one.units == 0 and right > 0 and division.comes_soon(limit, one, rights, at)
                for at, (one, right) in enumerate(zip(record.holdings, rights.units, strict=True))
            ):
                back = max(1, record.interval // 4)
        if not request.leaving and not again:
            record.until = limit.now + limit.terms.lease
            record.gone = record.until + 2 * max(limit.interval, record.interval)
            limit.falls_due(self._due(limit, record))
        keeps = [
            division.kept(bound, one, rights, at, held[at], uncertain > 0)
            for at, (bound, one) in enumerate(zip(limit.bounds, record.holdings, strict=True))
        ]
        for at, right in rights.slots.items():
            bound, one = limit.bounds[at], record.holdings[at]
            slot_rights.note_use(limit, bound, one, right, held[at], keeps[at], elapsed)
        fair = permits.fair_share(limit, record).units
        for one, units in zip(record.holdings, fair, strict=True):
            one.share = units
        waiting = permits.line(limit)
        ahead = [one.instance for one in waiting]
        return Reply(
            Kind.ANSWER,
            nonce=limit.nonce if uncertain else "",
            created=created,
            terms=limit.told,
            bounds=tuple(
                BoundReply(
                    units=one.units,
                    given=tuple(one.given.entries),
                    keep=keep,
                    share=one.share,
                    permit_cost=one.permit.cost,
                    needs=bound.needs,
                    free=bound.pool,
                    permit_at=one.permit.at,
                    permit_stayed=one.permit.stayed,
                    permit_wave=one.permit.wave,
                )
                for bound, one, keep in zip(limit.bounds, record.holdings, keeps, strict=True)
            ),
            certain=not uncertain,
            uncertain=uncertain,
            cause=limit.cause if uncertain else "",
            skew=limit.skew,
            born=record.born,
            short=any(
                right > one.units for right, one in zip(rights.units, record.holdings, strict=True)
            ),
            permit=record.permit,
            back=back,
            waiting=len(limit.queue),
            ahead=ahead.index(request.instance)
            if request.instance in ahead
            else len(ahead)
            if record.asks
            else 0,
            evicted=record.evicted,
            counted=record.counted,
            instances=len(limit.records),
            heard=record.seen,
        )

    def _write_ahead(self, limit: Limit) -> None:
        registry = self.registry
        if registry is None or not self.registered or not registry.has_room(self.name):
            return
        span = limit.terms.span
        certain = not certainty.remaining(limit, self.default_span)
        if span > registry.spans.get(self.name, 0) or certain:
            registry.spans[self.name] = span
        if registry.names.get(self.name, NEVER) - limit.now < span:
            registry.names[self.name] = limit.now + REGISTRY_SPANS * span

    # What an operator does.

    def set_terms(self, server: str, clock: int, token: str, change: LimitChange) -> bool:
        """Changes the terms of the limit; False if there is none, and not all terms are given.
        ArgumentError, and nothing is changed, if the limit is of other bounds and not all terms are
        given, or no limit can have them."""
        change.check()
        known = self.limit.terms if self.limit is not None and not self._is_deleted(clock) else None
        if known is None and not change.is_whole:
            return False
        same = known is not None and change.is_of(known)
        goal = change.applied_to(known)
        if change.factor or change.capacity:
            check_partitions(goal)
        now = self._time(None, server, clock)
        assert now is not None
        limit, _ = self._open(known or goal, server, now, token)
        limit.now = max(limit.now, now)
        limit.resize()
        # If it does not agree, its operator could not look at it; requests see to those of many.
        if len(limit.records) <= MOST_VISITS and not certainty.agrees(limit):
            certainty.doubt(limit, limit.server, limit.now, token, certainty.DISAGREES)
        old = limit.terms
        before = [(one.in_force(limit.now), one.peak, one.peak_until) for one in limit.bounds]
        terms = replace(goal, version=max(old.version + 1, clock), served=True)
        if not terms.agrees(old) and known is not None:
            what = "the lease or the period" if same else "its dimensions"
            self._start_over(limit, now, token, f"an operator changed {what}")
            if not same:  # what was counted of one dimension is not of another
                self.totals = Totals()
        limit.follow(terms)
        limit.deleted = False
        for at, one in enumerate(change.bounds):
            if one.capacity:
                bound = limit.bounds[at]
                bound.ramp = Ramp()
                if same:
                    in_force, peak, until = before[at]
                    bound.peak = max(in_force, peak if limit.now < until else 0.0)
                    bound.peak_until = limit.now + max(old.span, terms.span)
                    bound.ramp = Ramp(in_force, limit.now, one.ramp)
        limit.resize()
        self._store_time(server, now, clock - now)
        return True

    def delete(self, server: str, clock: int, token: str) -> bool:
        """Forgets the limit, its terms and its totals; whether there was one. Instances that hold
        something claim it again; nobody else is granted anything before that could have ended."""
        if self.limit is None or self._is_deleted(clock):
            return False
        now = self._time(None, server, clock)
        assert now is not None
        limit, _ = self._open(self.limit.terms, server, now, token)
        limit.now = max(limit.now, now)
        limit.resize()
        self._start_over(limit, now, token, "an operator deleted it")
        limit.deleted = True
        limit.terms = replace(limit.terms, version=max(limit.terms.version + 1, clock), served=True)
        self.totals = Totals()
        self._store_time(server, now, clock - now)
        return True

    def evict(self, instance: str) -> bool:
        """Takes everything from `instance` at its next request, and grants it nothing more;
        whether it is known."""
        record = self.limit.records.get(instance) if self.limit is not None else None
        if record is not None:
            record.evicted = True
        return record is not None

    def _is_deleted(self, clock: int) -> bool:
        return self.limit is not None and self.limit.deleted

    def _start_over(self, limit: Limit, now: int, token: str, cause: str) -> None:
        if not certainty.agrees(limit):  # then its records do not say what may be out
            limit.since = limit.now
        limit.not_before = certainty.last_use(limit, self.default_span)
        limit.proven = max(limit.proven, limit.terms.span)
        registry = self.registry
        if registry is not None and self.registered and registry.has_room(self.name):
            registry.names[self.name] = limit.not_before
        certainty.start_over(limit, now, token, cause)


def _holds_more(request: Request, record: Record | None) -> bool:
    """Whether an instance holds more of some bound than is known of it."""
    known = [one.units for one in record.holdings] if record else [0] * len(request.bounds)
    # Of other bounds nothing is known.
    return len(known) != len(request.bounds) or any(
        said.units > units for said, units in zip(request.bounds, known, strict=True)
    )


def _asks(limit: Limit, request: Request) -> bool:
    """Whether a request asks for a permit that there can be."""
    asks = [
        (said.ask, bound.in_force(limit.now))
        for bound, said in zip(limit.bounds, request.bounds, strict=True)
        if not bound.terms.slots
    ]
    return any(ask > 0 for ask, _ in asks) and all(0 <= ask <= most for ask, most in asks)


def _in_units(cost: float, worth: float, whole: int) -> int:
    """A cost as units of a bound, rounded up."""
    return max(0, min(whole, math.ceil(min(cost / worth, whole) - 1e-9)))
