"""The coordinator of one limit: who holds which partitions, decided one request at a time. Pure.

It is the twin of lua/sync.lua, which does the same inside Redis: what one answers, the other does
too, and a test holds them to it. What keeps every window within the limit:

* Each instance's ledger, and the pool's, never counts more than its partitions are worth.
  Partitions that are released bring their part of the ledger into the pool; those granted take
  a part along, in proportion to their worth. So all ledgers together never exceed the limit.
* An instance holds all of its partitions until one time, and reckons that time to be sooner
  than the coordinator does. One that was not heard of is given up only a period after it: as
  if it had spent everything at the last moment.
* When it is not known who holds what (the first request ever, a lost state, another server),
  nothing is granted until whatever may be out there has run out, and a period has passed.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import replace

from limiters.fair_share import (
    Ask,
    Entitled,
    Shares,
    credit_after,
    entitled,
    share_out,
    water_level,
)
from limiters.float_error import FLOAT_ERROR
from limiters.leases import ranges
from limiters.leases.coming import AT_ONCE_MS, Coming
from limiters.leases.manager import LimitView
from limiters.leases.member import Member, Ramp
from limiters.leases.messages import Reply, Request, Terms, partitions_of
from limiters.leases.pool import Pool, counts_ms
from limiters.leases.totals import LimitTotals

ASKS_PER_MS = 10
"""Shares are reckoned anew when they are older than a millisecond for so many who ask."""

MOST_FOLDED = 50
"""How many that were not heard of are given up in one request."""

STARVED_MS = 2000
"""How long an operation that needs a left-over partition gathers before it is put in line."""


class Coordinator:
    """See the module. One per limit. Not thread-safe."""

    def __init__(self, *, forgetful: bool = True) -> None:
        self.forgetful = forgetful
        """Whether a state that is not there may have been lost."""
        self.forget()

    def forget(self) -> None:
        """Loses everything, as a server that is restarted empty does."""
        self.terms: Terms | None = None
        self.ramp = Ramp()
        self.server = ""
        self.now_ms = 0
        self.quarantine_ms = 0
        self.totals = LimitTotals()
        self._start_over()

    def _start_over(self) -> None:
        self.pool = Pool()
        self.members: dict[str, Member] = {}
        self.going: list[tuple[int, str]] = []
        """A heap of when each is given up, as far as was known when it was entered."""
        self.asking: dict[str, Member] = {}
        self.dear: dict[str, int] = {}
        self.coming = Coming()
        self.shares = Shares(math.inf, math.inf, math.inf, math.inf)
        self.shares_ms = -1
        self.fair_level = math.inf
        """What the level would be if nothing were set aside for a dear operation."""
        self.needs = 0.0

    def sync(self, request: Request, now_ms: int, server: str = "") -> Reply:
        """Serves one request. `server` is the identity of whoever keeps the state."""
        created = self.terms is None
        self._look_at_the_clock(request, now_ms, server)
        self._follow_capacity()
        self._fold()
        member = self.members.get(request.instance)
        if member is not None and request.seq < member.seq:
            return Reply(stale=True)
        again = member is not None and request.seq == member.seq
        if member is not None and not again and request.born_ms not in (0, member.born_ms):
            self._dismiss(member)
            member = None
        counted = again
        if member is None:
            member = self._meet(request)
            counted = self.totals.knows(request.instance, request.seq)
        if not counted:
            self.totals.add(request.totals)
        member.credit, member.seen_ms = self._credit(member), self.now_ms
        if not again:
            self._hear(member, request)
        return replace(self._answer(member, request, again), created=created)

    # What is known, and whether it still counts.

    def _look_at_the_clock(self, request: Request, now_ms: int, server: str) -> None:
        terms = request.terms
        if self.terms is None:
            self.terms = replace(terms, version=max(1, terms.version))
            self.ramp = Ramp()
            self._unsure(now_ms, server)
        elif server != self.server or now_ms < self.now_ms - self.terms.lease_ms:
            self._unsure(now_ms, server)
        self.now_ms = max(self.now_ms, now_ms)
        if self.now_ms < self.quarantine_ms and terms.version > self.terms.version:
            self.terms = terms
            self.ramp = Ramp()
            self._unsure(self.now_ms, server)

    def _unsure(self, now_ms: int, server: str) -> None:
        assert self.terms is not None
        self.server = server
        self.now_ms = now_ms
        first = not self.forgetful and not self.quarantine_ms
        self.quarantine_ms = now_ms + (0 if first else self._gone_after_ms)
        self._start_over()

    @property
    def _terms(self) -> Terms:
        assert self.terms is not None
        return self.terms

    @property
    def _gone_after_ms(self) -> int:
        return self._terms.lease_ms + counts_ms(self._terms.period_ms)

    @property
    def capacity(self) -> float:
        """What is in force."""
        return self.ramp.capacity(self._terms.capacity, self.now_ms)

    def _follow_capacity(self) -> None:
        if self.pool.follow(self.capacity, self._terms.factor):
            self.shares_ms = -1

    # What people change by hand.

    def set_capacity(
        self, terms: Terms, now_ms: int, server: str = "", ramp: float | None = None
    ) -> None:
        """Changes the capacity to that of `terms`, a raise by at most `ramp` a millisecond.

        Creates the limit if there is none; another factor means to start over.
        """
        if self.terms is None:
            # Newer than those that instances may bring back from before it was lost: there are
            # fewer changes than milliseconds, and whoever sets it anew may know of none of them.
            self.terms = replace(terms, version=max(terms.version, now_ms) + 1)
            self._unsure(now_ms, server)
            return
        self.now_ms = max(self.now_ms, now_ms)
        before = self.capacity
        known = self.terms
        self.ramp = Ramp(before, self.now_ms, ramp or 0.0)
        self.terms = replace(known, capacity=terms.capacity, version=known.version + 1)
        if terms.factor != known.factor:
            self.terms = replace(self.terms, factor=terms.factor)
            self.ramp = Ramp()
            self._unsure(self.now_ms, self.server)

    def evict(self, instance: str) -> bool:
        """Takes everything from `instance` and grants it nothing more; whether it is known."""
        member = self.members.get(instance)
        if member is not None:
            member.evicted = True
        return member is not None

    def look(self, now_ms: int) -> LimitView | None:
        """What is known, as of then. Changes nothing."""
        if self.terms is None:
            return None
        capacity = self.ramp.capacity(self.terms.capacity, now_ms)
        return LimitView(
            terms=self.terms,
            capacity=capacity,
            rising=self.ramp.per_ms * 1000 if capacity < self.terms.capacity else 0.0,
            partitions=self.pool.partitions,
            free=self.pool.free,
            quarantine_ms=max(0, self.quarantine_ms - now_ms),
            members=tuple(
                one.view(name, now_ms)
                for name, one in sorted(self.members.items())
                if not one.has_left(now_ms, self.terms.lease_ms)
            ),
            totals=self.totals.counts,
        )

    def _fold(self) -> None:
        folded = 0
        while folded < MOST_FOLDED and self.going and self.going[0][0] <= self.now_ms:
            gone_ms, name = heapq.heappop(self.going)
            member = self.members[name]
            if member.gone_ms > gone_ms:
                heapq.heappush(self.going, (member.gone_ms, name))
            else:
                folded += 1
                self.pool.take_back(member.held)
                self.totals.give_up(name, member.seq, self.now_ms)
                self.coming.forget(name)
                for known in (self.members, self.asking, self.dear):
                    known.pop(name, None)

    def _dismiss(self, member: Member) -> None:
        """It never heard of what `member` was granted: that went to one of its old requests,
        which came late, when it had been given up. So it has not spent any of it."""
        self.pool.take_back(member.held)
        self.pool.put_back(member.given, self.now_ms, self._terms.period_ms)

    def _meet(self, request: Request) -> Member:
        gone_ms = self.now_ms + self._gone_after_ms
        member = Member(request.seq, self.now_ms, seen_ms=self.now_ms, gone_ms=gone_ms)
        known = self.members.get(request.instance)
        if known is None:
            heapq.heappush(self.going, (gone_ms, request.instance))
        else:
            member.evicted = known.evicted
        self.members[request.instance] = member
        # Who shows a lease that has not run out keeps it while nothing is known.
        if (
            self.now_ms < min(self.quarantine_ms, request.until_ms)
            and request.terms.factor == self._terms.factor
        ):
            member.held = self.pool.claim(request.held)
        return member

    # What it was told.

    def _hear(self, member: Member, request: Request) -> None:
        released = ranges.common(request.released, member.held)
        if released:
            member.held = ranges.without(member.held, released)
            self.pool.take_back(released)
            self.pool.remember(request.history, self.now_ms, self._terms.period_ms)
        member.seq = request.seq
        member.given = []
        member.interval_ms = request.interval_ms
        member.weight = request.weight
        member.spent = request.spent
        member.reserved = request.reserved
        member.label = request.label
        idle = request.leaving or member.evicted
        member.need = 0.0 if idle else request.need
        member.gathering = 0.0 if idle else request.gathering
        member.wanted = min(partitions_of(member.need, self._terms.factor), self.pool.partitions)
        if member.wanted:
            self.asking[request.instance] = member
        else:
            self.asking.pop(request.instance, None)

    def _credit(self, member: Member) -> float:
        """What it is owed by now."""
        return credit_after(member.credit, member.lacks, (self.now_ms - member.seen_ms) / 1000)

    def _ask(self, member: Member) -> Ask:
        credit = self._credit(member)
        soon = credit_after(credit, member.lacks, member.interval_ms / 1000)
        return Ask(member.wanted, member.weight, credit, soon)

    # What it is told.

    def _answer(self, member: Member, request: Request, again: bool) -> Reply:
        self._reckon_shares()
        if self._line_up(member, request):
            self._reckon_shares()
        right = self._right(member, request)
        had_none = not member.held
        certain = self.now_ms >= self.quarantine_ms
        if certain and not again and not request.leaving:
            self._grant(member, right)
        full, last = self.pool.full_ones(member.held), self.pool.has_last(member.held)
        keep_last = self._may_have_last(member, right, full)
        too_many = certain and (full > right.full or (last and not keep_last))
        at_once = certain and (
            full > math.ceil(right.share - FLOAT_ERROR) or ranges.count(member.held) > full + last
        )
        short = full < right.full or (keep_last and not last)
        much = had_none and 2 * ranges.count(member.held) > self.pool.partitions
        member.share = right.share
        member.lacks = right.share - self.pool.units(member.held)
        if right.share >= member.wanted - FLOAT_ERROR:
            # Who may have all it wants is owed nothing.
            member.credit = member.lacks = 0.0
        if not request.leaving:
            member.until_ms = self.now_ms + self._terms.lease_ms
            member.gone_ms = self.now_ms + self._gone_after_ms
        quarantine = max(0, self.quarantine_ms - self.now_ms)
        come_back = self.coming.answer(
            request.instance,
            self.now_ms,
            releases_in_ms=(AT_ONCE_MS if at_once else request.interval_ms) if too_many else None,
            uncertain_ms=quarantine,
            short=short,
            much=much,
        )
        return Reply(
            held=member.held,
            until_ms=member.until_ms,
            lease_ms=self._terms.lease_ms,
            history=tuple((max(0, self.now_ms - at), cost) for at, cost in member.given),
            share=right.share,
            keep=right.full if certain else max(right.full, full),
            keep_last=keep_last or not certain,
            at_once=at_once,
            come_back_ms=come_back,
            quarantine_ms=quarantine,
            evicted=member.evicted,
            capacity=self.capacity,
            terms=self._terms,
            members=len(self.members),
            needs=self.needs,
            free=ranges.count(self.pool.free_full()),
            born_ms=member.born_ms,
        )

    def _right(self, member: Member, request: Request) -> Entitled:
        if request.instance == self._admitted():
            full, last = self._set_aside(member.gathering)
            return Entitled(float(full), full, last)
        return entitled(self.shares, self._ask(member), self.pool.units(member.held))

    def _may_have_last(self, member: Member, right: Entitled, full: int) -> bool:
        """Who gets all it wants gets the last one only in place of a full one."""
        return right.last and (full < right.full or right.full < member.wanted)

    def _grant(self, member: Member, right: Entitled) -> None:
        full = self.pool.full_ones(member.held)
        granted = ranges.lowest(self.pool.free_full(), right.full - full)
        if self._may_have_last(member, right, full + ranges.count(granted)):
            granted = ranges.union(granted, ranges.common(self.pool.free, self.pool.last))
        terms = self._terms
        member.given = self.pool.take(granted, self.now_ms, terms.period_ms, terms.factor)
        member.held = ranges.union(member.held, granted)

    def _line_up(self, member: Member, request: Request) -> bool:
        """Operations dearer than a share are let through one at a time, the oldest first.

        Whether the line has changed, and with it the shares.
        """
        name = request.instance
        lines_up = 0 < member.gathering <= self.capacity and (
            name in self.dear or self._is_dear(member, request.waited_ms)
        )
        if lines_up == (name in self.dear):
            return False
        if lines_up:
            first = self._admitted()
            since = self.now_ms - request.waited_ms
            # The one that gathers already is not sent back.
            self.dear[name] = since if first is None else max(since, self.dear[first] + 1)
        else:
            del self.dear[name]
        self.shares_ms = -1
        return True

    def _is_dear(self, member: Member, waited_ms: int) -> bool:
        share = min(member.wanted, member.weight * self.fair_level)
        units = member.gathering / self._terms.factor - FLOAT_ERROR
        if waited_ms < STARVED_MS + 2 * self._terms.period_ms:
            return units > math.ceil(share - FLOAT_ERROR)
        return units > math.floor(share + FLOAT_ERROR)

    def _admitted(self) -> str | None:
        return min(self.dear, key=lambda name: (self.dear[name], name), default=None)

    def _set_aside(self, gathering: float) -> tuple[int, bool]:
        units = partitions_of(gathering, self._terms.factor)
        return min(units, self.pool.full), units > self.pool.full

    def _reckon_shares(self) -> None:
        age_ms = self.now_ms - self.shares_ms
        if self.shares_ms >= 0 and age_ms < len(self.asking) // ASKS_PER_MS:
            return
        self.shares_ms = self.now_ms
        self.needs = math.fsum(one.need for one in self.asking.values()) / self._terms.factor
        asks = {name: self._ask(one) for name, one in self.asking.items()}
        full, remainder = self.pool.full, self.pool.remainder
        self.fair_level = water_level(list(asks.values()), full + remainder)
        admitted = self._admitted()
        if admitted is not None:
            aside, all_of_it = self._set_aside(self.members[admitted].gathering)
            full -= aside
            remainder = 0.0 if all_of_it else remainder
            asks.pop(admitted, None)
        self.shares = share_out(list(asks.values()), full, remainder)
