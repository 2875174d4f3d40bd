"""Serves the requests of one limit, one at a time. Pure: it is given the server's clock.

What keeps every window within the limit: for every holder (each instance, and the pool) the
entries that count at any time sum to at most what its amount is worth. Spending checks that, time
only removes entries, and a hand-over moves the same fraction of every entry. `docs/exactness.md`
has the proof, `certainty` the rules for failing servers and networks.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

from limiters._support.validation import MAX_AMOUNT, ArgumentError
from limiters.leases._coordinator import certainty, permits
from limiters.leases._coordinator.shares import level_of
from limiters.leases._coordinator.state import Limit, Ramp, Record, Registry
from limiters.leases._format import (
    CHANGE,
    DEFAULT_SPAN,
    FORMAT,
    FREE_SHARE,
    INSTANCES_PER_MS,
    MAX_INSTANCES,
    MAX_PERMIT_MS,
    MAX_TRIES,
    NEVER,
    QUEUE_LENGTH,
    REGISTRY_SPANS,
    UNITS,
    WHOLE_BATCHES,
)
from limiters.leases._ledger import Ledger, believed, slice_end
from limiters.leases._messages import Kind, Reply, Request, Terms, check_partitions, checked
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
        self._notice_gap(limit, token)
        self._collect(limit, token)
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
        certainty.learn_terms(limit, request, uncertain)
        if not request.terms.agrees(limit.terms):
            return self._refuse(limit, request, uncertain)
        if again:
            assert record is not None
            if record.given_is_lost or not self._refresh(limit, token):
                return Reply(Kind.CHALLENGE, nonce=limit.nonce)
            return self._answer(limit, request, record, again=True, created=created)
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
        if not self._refresh(limit, token):
            return Reply(Kind.CHALLENGE, nonce=limit.nonce)
        permits.follow_fair_share(limit, record)
        permits.enqueue(limit, request.instance, record)
        permits.keep_pace(limit, passed)
        reply = self._answer(limit, request, record, again=False, created=created)
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
        unknown = request.left > 0 and request.units > (record.units if record else 0)
        if news or (unknown and not again):
            if not proves:
                return Reply(Kind.CHALLENGE, nonce=limit.nonce)
            certainty.doubt(limit, limit.server, limit.now, token, "another server was in charge")
        return None

    def _refuse(self, limit: Limit, request: Request, uncertain: bool) -> Reply:
        nonce = limit.nonce if uncertain else ""
        return Reply(Kind.REFUSED, nonce=nonce, terms=limit.terms)

    def _notice_gap(self, limit: Limit, token: str) -> None:
        """If nobody could confirm the time since the last request, another server may have been
        in charge meanwhile, and have renewed every lease: nobody is given up before those end."""
        if limit.now - limit.last > 2 * limit.interval or self._swallowed:
            self._collect(limit, token)
            limit.kept_until = max(limit.kept_until, limit.now + limit.terms.span)

    # Who holds what.

    def _collect(self, limit: Limit, token: str) -> None:
        """Gives up instances that were silent for too long; takes back what was missing."""
        if limit.now < limit.due:
            return
        if not certainty.agrees(limit):
            certainty.doubt(limit, limit.server, limit.now, token, certainty.DISAGREES)
            return
        limit.pool += sum(units for at, units in limit.returning if at <= limit.now)
        limit.returning = [(at, units) for at, units in limit.returning if at > limit.now]
        for name, record in list(limit.records.items()):
            if max(record.gone, limit.kept_until) <= limit.now:
                limit.pool += record.units
                del limit.records[name]
        ends = [max(one.gone, limit.kept_until) for one in limit.records.values()]
        ends += [at for at, _ in limit.returning]
        limit.due = min(ends, default=limit.now + limit.terms.span)
        limit.queue = [one for one in limit.queue if one.instance in limit.records]

    def _admit(
        self, limit: Limit, record: Record | None, request: Request, uncertain: bool
    ) -> Record:
        """The record of the sender. What it states replaces what was known, as far as rule 3 says:
        upwards only while uncertain."""
        if record is not None and not uncertain and request.born != record.born:
            # The last grant answered a delayed copy of a request, so the instance never received
            # it. Nothing of it was spent; return it to the pool.
            if record.given_is_lost:
                lost = min(record.granted, record.units)
                record.units -= lost
                self._return_later(limit, lost)
            limit.pool += record.units
            limit.ledger.merge(record.given.entries)
            evicted, record = record.evicted, None
            del limit.records[request.instance]
        else:
            evicted = False
        if record is None:
            limit.next_id += 1
            record = Record(
                born=limit.next_id, seen=limit.now, turn=limit.turns_at, evicted=evicted
            )
            record.gone = limit.now + limit.terms.span
            limit.records[request.instance] = record
            if uncertain and request.left > 0:
                self._claim(limit, record, request.units)
            return record
        if uncertain and request.left > 0:
            self._claim(limit, record, request.units - record.units)
        self._release(limit, record, request, uncertain)
        if uncertain or request.ended:
            missing = record.units - request.units
            if missing > 0:
                record.units -= missing
                self._return_later(limit, missing)
        return record

    def _claim(self, limit: Limit, record: Record, units: int) -> None:
        units = max(0, min(units, limit.pool))
        record.units += units
        limit.pool -= units

    def _release(self, limit: Limit, record: Record, request: Request, uncertain: bool) -> None:
        released = min(request.released, record.units)
        if not released:
            return
        record.units -= released
        limit.pool += released
        period = limit.terms.period
        spent = [
            (slice_end(limit.now - max(0, age), period), cost) for age, cost in request.history
        ]
        if not uncertain:  # else the stamps may be those of another server
            latest = slice_end(limit.now + MAX_PERMIT_MS, period)
            spent += [(min(at, latest), cost) for at, cost in request.stamped]
        since = limit.now - limit.terms.counts
        # While uncertain nobody knows what it was told elsewhere; and nothing is granted.
        most = MAX_AMOUNT if uncertain else released / UNITS * limit.most_in_force
        limit.ledger.merge(believed(spent, most, since))

    def _return_later(self, limit: Limit, units: int) -> None:
        """What an instance no longer states, and did not release: its spending counts."""
        at = slice_end(limit.now + limit.terms.counts, limit.terms.period)
        if limit.returning and limit.returning[-1][0] == at:
            units += limit.returning.pop()[1]
        limit.returning.append((at, units))
        limit.due = min(limit.due, at)

    def _hear(self, limit: Limit, record: Record, request: Request, uncertain: bool) -> None:
        """What the instance wants from now on."""
        permits.correct(limit, record, request)
        worth = limit.worth
        idle = request.leaving or record.evicted
        record.seq, record.given, record.granted = request.seq, Ledger(), 0
        record.seen, record.interval = limit.now, request.interval
        record.weight, record.piece = request.weight, request.piece
        record.spent, record.reserved, record.label = request.spent, request.reserved, request.label
        record.need = 0 if idle else _in_units(request.need, worth)
        asks = request.ask > 0 and not idle and request.ask <= limit.in_force
        if asks and not record.ask:
            record.ask_since = limit.now - request.waited
        record.ask = request.ask if asks else 0.0
        record.gathers = asks and request.gathers

    # Shares.

    def _refresh(self, limit: Limit, token: str) -> bool:
        """Computes the shares and the queue again, unless they are recent enough. False if what is
        stored did not agree, so that everything was forgotten."""
        if limit.now - limit.shares_at < len(limit.records) // INSTANCES_PER_MS:
            return True
        if not certainty.agrees(limit):
            certainty.doubt(limit, limit.server, limit.now, token, certainty.DISAGREES)
            return False
        limit.shares_at = limit.now
        records = limit.records.values()
        limit.needs = sum(one.need for one in records)
        fair = level_of([(one.need, one.weight) for one in records], UNITS)
        if fair.weight and not limit.fair.weight:
            limit.short_since = limit.now
        limit.fair = fair
        places = [permits.waiter(limit, name, one) for name, one in limit.records.items()]
        limit.queue = heapq.nsmallest(
            QUEUE_LENGTH,
            [one for one in places if one is not None],
            key=lambda one: (one.turn > limit.turns_at, one),
        )
        asks = [(permits.wants(limit, one), one.weight) for one in records]
        limit.level = level_of(asks, UNITS - permits.kept_aside(limit))
        # Nobody is short: half of what is left is held by those who work, so that they can do more
        # without asking first; the other half serves newcomers at once.
        wanted = sum(want for want, _ in asks)
        left = UNITS - limit.needs
        limit.spare = left / 2 / wanted if left > 0 and wanted > 0 else 0.0
        return True

    def _entitled(self, limit: Limit, record: Record) -> int:
        """How much an instance may hold as a share."""
        want = permits.wants(limit, record)
        if limit.spare > 0:
            return min(UNITS, want + math.floor(want * limit.spare))
        share = limit.level.share(want, record.weight)
        worth = share * limit.worth
        if record.piece > 0 and share < want and worth < WHOLE_BATCHES * record.piece:
            batches = math.floor(worth / record.piece + 1e-9)
            return min(UNITS, math.ceil(batches * record.piece / limit.worth))
        return share

    def _pays_at_once(self, limit: Limit, record: Record, right: int) -> bool:
        """Whether a share that is about to be granted has room for what an instance asks for."""
        units = min(right - record.units, limit.pool - permits.kept_aside(limit))
        if units <= 0:
            return False
        spent = limit.ledger.total(limit.now - limit.terms.counts)
        return units / limit.pool * (limit.pool * limit.worth - spent) >= record.ask

    def _grant(self, limit: Limit, record: Record, right: int) -> None:
        free = limit.pool - permits.kept_aside(limit)
        units = min(right - record.units, free)
        if units <= 0:
            return
        part = units / limit.pool
        limit.ledger.total(limit.now - limit.terms.counts)
        record.given = limit.ledger.split(part)
        record.granted = units if record.given.entries else 0
        permits.handed_over(limit, part)
        limit.pool -= units
        record.units += units

    # The answer.

    def _answer(
        self, limit: Limit, request: Request, record: Record, *, again: bool, created: bool
    ) -> Reply:
        right = self._entitled(limit, record)
        uncertain = certainty.remaining(limit, self.default_span)
        back = -1
        if not uncertain and not again and not request.leaving:
            if record.ask and not self._pays_at_once(limit, record, right):
                back = permits.grant(limit, request.instance, record, request)
            self._grant(limit, record, right)
            if right * limit.worth >= request.ask:
                back = -1  # its share will pay for it
            if record.units == 0 and right > 0:
                back = max(1, record.interval // 4)
        if not request.leaving and not again:
            late = 2 * max(limit.interval, record.interval)
            record.until = limit.now + limit.terms.lease
            record.gone = record.until + limit.terms.counts + late
            limit.due = min(limit.due, record.gone)
        record.share = limit.fair.share(record.need, record.weight)
        waiting = permits.line(limit)
        ahead = [one.instance for one in waiting]
        return Reply(
            Kind.ANSWER,
            nonce=limit.nonce if uncertain else "",
            created=created,
            terms=replace(
                limit.terms,
                in_force=limit.in_force,
                rising=limit.ramp.rate if limit.in_force < limit.terms.capacity else 0.0,
            ),
            certain=not uncertain,
            uncertain=uncertain,
            cause=limit.cause if uncertain else "",
            skew=limit.skew,
            born=record.born,
            units=record.units,
            given=tuple(record.given.entries),
            keep=self._kept(limit, record, right, uncertain),
            share=record.share,
            short=right > record.units,
            permit=record.permit.number,
            permit_cost=record.permit.cost,
            back=back,
            waiting=len(limit.queue),
            ahead=ahead.index(request.instance) if request.instance in ahead else 0,
            evicted=record.evicted,
            counted=record.counted,
            instances=len(limit.records),
            needs=limit.needs,
            free=limit.pool,
        )

    def _kept(self, limit: Limit, record: Record, right: int, uncertain: int) -> int:
        """How much of what it holds an instance may keep. Each hand-over carries history, so
        nothing moves while nobody is short."""
        if uncertain:
            return max(right, record.units)
        if limit.spare > 0 and right > 0 and limit.pool * FREE_SHARE >= UNITS:
            return max(right, record.units)
        return right

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

    def set_terms(
        self,
        server: str,
        clock: int,
        token: str,
        *,
        capacity: float | None = None,
        factor: float | None = None,
        period: int | None = None,
        lease: int | None = None,
        ramp: float | None = None,
    ) -> bool:
        """Changes the terms of the limit, a raised capacity by at most `ramp` a millisecond; what
        is None stays as it is. False if there is no limit and not all terms are given.
        ArgumentError, and nothing is changed, if that made too many partitions, or no limit can
        have it."""
        for one, value in zip(CHANGE, (capacity, factor, period, lease, ramp), strict=True):
            if value and not one.fits(value):
                raise ArgumentError(one.name, value, "be what a limit can have")
        given = Terms(capacity or 0.0, factor or 1.0, period or 0, lease or 0)
        known = self.limit.terms if self.limit is not None and not self._is_deleted(clock) else None
        if known is None and not (capacity and factor and period and lease):
            return False
        if capacity or factor:
            stays = known or given
            check_partitions(
                replace(given, capacity=capacity or stays.capacity, factor=factor or stays.factor)
            )
        now = self._time(None, server, clock)
        assert now is not None
        limit, _ = self._open(known or given, server, now, token)
        limit.now = max(limit.now, now)
        if not certainty.agrees(limit):  # else its operator could not look at it
            certainty.doubt(limit, limit.server, limit.now, token, certainty.DISAGREES)
        before, old = limit.in_force, limit.terms
        terms = Terms(
            capacity or old.capacity,
            factor or old.factor,
            period or old.period,
            lease or old.lease,
            max(old.version + 1, clock),
            served=True,
        )
        if not terms.agrees(old) and known is not None:
            self._start_over(limit, now, token, "an operator changed the lease or the period")
        limit.terms, limit.deleted = terms, False
        if capacity and known is not None:
            limit.peak = max(before, limit.peak if limit.now < limit.peak_until else 0.0)
            limit.peak_until = limit.now + max(old.span, terms.span)
        if capacity:
            limit.ramp = Ramp(before, limit.now, ramp or 0.0) if known is not None else Ramp()
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


def _in_units(cost: float, worth: float) -> int:
    """A cost as units of the limit, rounded up."""
    return max(0, min(UNITS, math.ceil(min(cost / worth, UNITS) - 1e-9)))
