"""An instance of a limit of several bounds, as small as it can be: it spends what it may in all of
its bounds together, starts calls in its slots, and keeps to the rules of hand-overs, leases and
permits.

It stands for every instance that is right, so that the coordinator can be tried without one that is
in use. Times are whole milliseconds; its clock is that of the test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from random import Random

from limiters.leases._format import FLOAT_ERROR, MAX_PERMIT_MS
from limiters.leases._messages import (
    BoundReply,
    BoundRequest,
    BoundTerms,
    Entries,
    Kind,
    Reply,
    Request,
    Terms,
    usable_lease,
)


@dataclass(slots=True)
class Part:
    """The part of one bound that the instance holds."""

    terms: BoundTerms
    units: int = 0
    keep: int = 0
    own: list[tuple[int, float]] = field(default_factory=list)
    """Its own spending: when, and how much."""
    inherited: list[tuple[int, float, int]] = field(default_factory=list)
    """Entries that came with what was received: the stamp, how much, and up to when it counts."""
    piece: float = 0.0
    permit: float = 0.0

    @property
    def worth(self) -> float:
        capacity = self.terms.in_force or self.terms.capacity
        return float(self.units) if self.terms.slots else self.units / self.terms.units * capacity

    def spent(self, now: int) -> float:
        self.own = [one for one in self.own if one[0] + self.terms.counts > now]
        self.inherited = [one for one in self.inherited if one[2] > now]
        return math.fsum(one[1] for one in (*self.own, *self.inherited))

    def recent(self, now: int) -> float:
        return math.fsum(cost for at, cost in self.own if at + self.terms.counts > now)

    def hand_over(self, released: int, now: int) -> tuple[Entries, Entries]:
        """Takes the same part of every entry away, and returns it."""
        part = released / self.units
        self.spent(now)
        history = tuple((now - at, cost * part) for at, cost in self.own)
        stamped = tuple((stamp, cost * part) for stamp, cost, _ in self.inherited)
        self.own = [(at, cost - cost * part) for at, cost in self.own]
        self.inherited = [(at, cost - cost * part, until) for at, cost, until in self.inherited]
        self.units -= released
        return history, stamped


@dataclass(frozen=True, slots=True)
class Call:
    """One batch that was started."""

    at: int
    costs: tuple[float, ...]
    """Of each bound: of slots, one."""
    ends: int


class BoundedInstance:
    """`mix` is what a batch costs of each bound (of slots, 1)."""

    def __init__(
        self,
        name: str,
        terms: Terms,
        mix: tuple[float, ...],
        *,
        interval: int = 500,
        lasts: int = 100,
        weight: int = 1_000,
    ) -> None:
        self.name, self.terms, self.mix = name, terms, mix
        self.interval, self.lasts, self.weight = interval, lasts, weight
        self.parts = [Part(one) for one in terms.bounds]
        self.backlog = True
        self.calls: list[Call] = []
        self.running: list[int] = []
        """When its calls end."""
        self.pending: Request | None = None
        self.until = -1
        self.composed = 0
        self.sent = 0
        self.due = -1
        self._seq, self._born, self._server, self._nonce = 0, 0, "", ""
        self._ended = False
        self._answered = 0
        self._told = 0
        self._number, self._permit_until = 0, -1
        self._used: list[int] = []
        self.permits = 0
        self.answers: list[Reply] = []

    # Work.

    def spend(self, now: int, random: Random) -> None:
        """Starts as many batches as it may."""
        self.running = [ends for ends in self.running if ends > now]
        while self.backlog and self._start(now):
            ends = now + random.randrange(1, 2 * self.lasts)
            if any(one.terms.slots for one in self.parts):
                self.running.append(ends)
            self.calls.append(Call(now, self.mix, ends))

    def _start(self, now: int) -> bool:
        for part in self.parts:
            if part.terms.slots and (
                now >= self.until or len(self.running) >= min(part.units, part.keep)
            ):
                return False
        rates = [
            (part, cost)
            for part, cost in zip(self.parts, self.mix, strict=True)
            if not part.terms.slots
        ]
        if self._number and now < self._permit_until and not self._used:
            self._used.append(now)
            return True
        if now >= self.until or not all(
            part.spent(now) + cost <= part.worth * (1 + FLOAT_ERROR / 10) for part, cost in rates
        ):
            return False
        for part, cost in rates:
            if cost:
                part.own.append((now, cost))
        return True

    # Requests.

    def next_call(self, now: int) -> int:
        """When it has something to send: now if a permit was used, or a part of what it holds
        is not to be kept."""
        soon = self.sent + 20
        if self.pending is not None:
            return now if self.due < 0 else max(self.due, soon)
        if self._used or any(4 * self._surplus(one, False) > one.units for one in self.parts):
            return soon
        return max(self.due, soon)

    def compose(self, now: int, *, leaving: bool = False) -> Request:
        """The request that was not answered, or a new one."""
        if now >= self.until:
            for part in self.parts:
                part.units = 0
        if self.pending is None:
            self.pending = self._request(now, leaving)
            self.composed = now
        self.sent = now
        confirmed = self._told + math.floor((now - self._answered) * 1.002) + 20
        return replace(self.pending, confirmed=confirmed if self._server else -1)

    def _request(self, now: int, leaving: bool) -> Request:
        self.running = [ends for ends in self.running if ends > now]
        number, used = self._number, self._used
        self._number, self._used = 0, []
        shape = self._shape()
        most = min(
            one.terms.capacity / use for one, use in zip(self.parts, shape, strict=True) if use
        )
        lacks = [
            not one.terms.slots and one.spent(now) + cost > one.worth
            for one, cost in zip(self.parts, self.mix, strict=True)
        ]
        wants = self.backlog and not leaving
        asks = wants and any(lacks) and self._answered > 0
        bounds = []
        for part, cost, use, lack in zip(self.parts, self.mix, shape, lacks, strict=True):
            slots = part.terms.slots
            spent = 0.0 if slots else part.recent(now)
            history: Entries = ()
            stamped: Entries = ()
            released = self._surplus(part, leaving)
            if released and slots:
                part.units -= released
            elif released:
                history, stamped = part.hand_over(released, now)
            paid = part.permit if number and used else 0.0
            bounds.append(
                BoundRequest(
                    units=part.units,
                    released=released,
                    history=history,
                    stamped=stamped,
                    need=use * most if wants else float(len(self.running)) if slots else spent,
                    by_permit=paid,
                    ask=cost if asks and not slots else 0.0,
                    lacks=lack,
                    piece=cost,
                    spent=spent + paid,
                    permit_spent=tuple((now - at, part.permit) for at in used if number),
                )
            )
        self._seq += 1
        return Request(
            self.name,
            self._seq,
            self.terms,
            tuple(bounds),
            born=self._born,
            server=self._server,
            age=now - self._answered if self._server else 0,
            nonce=self._nonce,
            ended=self._ended,
            left=max(0, self.until - now) if any(one.units for one in bounds) else 0,
            gathers=asks and not any(one.units for one in bounds),
            valid=MAX_PERMIT_MS // 2,
            weight=self.weight,
            interval=self.interval,
            leaving=leaving,
            permit=number,
        )

    def _shape(self) -> list[float]:
        """The use of each bound by one batch a millisecond: in its period, or in flight."""
        return [
            float(self.lasts) if one.terms.slots else cost * one.terms.period
            for one, cost in zip(self.parts, self.mix, strict=True)
        ]

    def _surplus(self, part: Part, leaving: bool) -> int:
        surplus = part.units if leaving else max(0, part.units - part.keep)
        if part.terms.slots:  # what runs stays
            return max(0, min(surplus, part.units - len(self.running)))
        return surplus

    def answered(self, reply: Reply, now: int) -> None:
        if reply.kind is Kind.RETRY:
            assert self.pending is not None
            self.pending, self.due = replace(self.pending, tries=self.pending.tries + 1), -1
            return
        self._nonce, self.pending, self.due = reply.nonce, None, now
        if reply.kind is not Kind.ANSWER:
            self._ended = True
            return
        self.answers = [reply, *self.answers[:9]]
        if reply.server != self._server:
            for part in self.parts:
                part.inherited = [(-(10**12), cost, until) for _, cost, until in part.inherited]
        self._server, self._ended, self._born = reply.server, False, reply.born
        self._answered, self._told = self.sent, reply.now
        self.terms = reply.terms
        for part, terms, said in zip(self.parts, reply.terms.bounds, reply.bounds, strict=True):
            self._follow(part, terms, said, reply, now)
        self.until = self.composed + math.floor(usable_lease(self.terms.lease))
        if reply.permit and reply.permit != self._number:
            self._number, self._used = reply.permit, []
            self._permit_until = self.composed + MAX_PERMIT_MS // 2 - 1
            self.permits += 1
        soon = self.interval if reply.back < 0 else max(20, reply.back)
        self.due = now + min(self.interval, soon)

    def _follow(
        self, part: Part, terms: BoundTerms, said: BoundReply, reply: Reply, now: int
    ) -> None:
        part.terms, part.units, part.keep = terms, said.units, said.keep
        part.permit = said.permit_cost
        part.inherited += [
            (stamp, cost, now + stamp + terms.counts - reply.now) for stamp, cost in said.given
        ]


def over(calls: list[Call], at: int, terms: BoundTerms, capacities: list[tuple[int, float]]) -> str:
    """The first window of a bound that is over, or the first moment at which too many calls run; ""
    if there is none. The capacities are those in force, from when on."""
    if terms.slots:
        return _too_many(calls, capacities, terms)
    spent, first, total = sorted((one.at, one.costs[at]) for one in calls), 0, 0.0
    for when, cost in spent:
        total += cost
        while spent[first][0] <= when - terms.period:
            total -= spent[first][1]
            first += 1
        if total > _most(capacities, when, terms.period) * (1 + 1e-6):
            return f"{total} of bound {at} in the window up to {when}"
    return ""


def _too_many(calls: list[Call], capacities: list[tuple[int, float]], terms: BoundTerms) -> str:
    changes = sorted([(one.at, 1) for one in calls] + [(one.ends, -1) for one in calls])
    running = 0
    for when, change in changes:
        running += change
        if change > 0 and running > _most(capacities, when, terms.period):
            return f"{running} calls at {when}"
    return ""


def _most(capacities: list[tuple[int, float]], when: int, period: int) -> float:
    """The largest capacity in force within a lease and a period."""
    since = when - period - 10_000
    later = [capacity for at, capacity in capacities if since < at <= when]
    before = [capacity for at, capacity in capacities if at <= since]
    return max([*later, *before[-1:]])
