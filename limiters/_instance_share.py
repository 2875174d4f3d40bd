"""One instance's share of a limit: what it holds and until when, what it may spend, what it
requests next. Pure: its driver passes the time, sends the requests and brings the replies.

The rules that keep every window within the limit, on this side:

* A request is sent again, as it is, until it is answered or the server says that it cannot be
  answered any more (a challenge). So it is known what became of everything in it.
* What is released is no longer spendable once the request is composed; the same fraction of every
  entry of the ledger is sent with it.
* A lease is counted from before its request was sent, less a margin for the rate of clocks.
* A permit is used before it ends, and reported by the next request.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from limiters._budgets.permit import PermitBudget
from limiters._budgets.recent import RecentSpending
from limiters._budgets.release import last_release, releasable
from limiters._budgets.shortage import Shortage
from limiters._budgets.spend import Tenure
from limiters._budgets.window import WindowLedger
from limiters._support.float_error import covers
from limiters.leases._confirmed_clock import ConfirmedClock, Exchange
from limiters.leases._format import DRIFT, MAX_PERMIT_MS, UNITS, WHOLE_BATCHES
from limiters.leases._messages import Kind, Reply, Request, Terms, usable_lease

MIN_REQUEST_INTERVAL = 0.05
"""Seconds between two requests, however urgent the second is; but not after a challenge."""

HISTORY_SLICES = 200
"""Ages of spending are sent in slices of a period, rounded to the later end."""

WORTH_A_CALL = 4
"""A surplus of more than this part of what it holds is released at once, a smaller one with the
next sync."""

MAX_AT_ONCE = 4
"""How many requests in a row may be sent back and follow each other without a pause."""


@dataclass(frozen=True, slots=True)
class News:
    """What a reply has changed."""

    answered: bool = False
    """Whether it is an answer: not if the request was only sent back."""
    permit: float = 0.0
    """The cost of a permit that was granted."""
    disowned: bool = False
    """Another process uses the same identity: it has to be given up."""
    refused: Terms | None = None
    """The terms in force, with which this instance's do not agree."""


class InstanceShare:
    """See the module. Not thread-safe."""

    def __init__(
        self, instance: str, terms: Terms, *, interval: float = 0.5, **profile: Any
    ) -> None:
        self.instance = instance
        self.terms = terms
        """Its own, until a reply brings those in force."""
        self.profile = Request(instance, 0, terms, **profile)
        """What it says of itself in every request, such as its weight."""
        self._configured = terms
        self.interval = interval
        self._longest_interval = interval
        self.units = 0
        self.tenure = Tenure(-math.inf)
        self.ledger = WindowLedger(0.0, terms.period / 1000, shared=True)
        self.permit = PermitBudget()
        self.reply: Reply | None = None
        """The last answer."""
        self.pending: Request | None = None
        """The request that is under way, or has to be sent again."""
        self.left = False
        self.permits = 0
        """How many permits it was granted."""

        self._asks_since: float | None = None
        """Since when it has asked for a permit; None if it does not."""
        self._waiting = 0.0
        self._missed = 0.0
        """What waited while nothing was held: it counts once, even if it no longer waits."""
        self._gathering = 0.0
        self._gathers_since = 0.0
        self._shortage = Shortage()
        self._recent = RecentSpending(self.ledger)
        self._piece = 0.0
        self._counted = (0, 0.0)
        self._asked_need = 0.0
        self._asked_gathering = 0.0
        self._seq = 0
        self._last_call = -math.inf
        self._next_call = -math.inf
        self._failures = 0
        self._sent_backs = 0
        """How many requests in a row were sent back: the next one is due at once."""
        self._curious = False
        """Whether something has changed that only the next reply can show."""

        self._server = ""
        self._nonce = ""
        self._ended = False
        self._tries = 0
        self._composed = -math.inf
        self._answered = -math.inf
        self._clock = ConfirmedClock()

    @property
    def until(self) -> float:
        """When its lease ends, by its own clock."""
        return self.tenure.until

    @property
    def capacity(self) -> float:
        """The shared capacity in force, as far as is known."""
        return self.terms.in_force or self.terms.capacity

    # What it may spend.

    def settle(self, now: float) -> float:
        """What it holds at this time, in cost; the ledger follows."""
        worth = self._worth(self.units) if now < self.until else 0.0
        self.ledger.set_capacity(worth)
        self._recent.sample(now)
        return worth

    def _worth(self, units: int) -> float:
        return units * self.capacity / UNITS

    def burst(self, now: float) -> float:
        """What may be spent at once after a rest."""
        if self.settle(now):
            return self.ledger.burst(now)
        share = self._worth(self.reply.share) if self.reply is not None else 0.0
        # Not more: an operation that waits for as much as this would otherwise wait forever.
        return (share or min(self.terms.factor, self.capacity)) * self.ledger.uneven_burst

    @property
    def spent_in_all(self) -> float:
        """What has begun, on its share and by permits."""
        return self.ledger.total() + self.permit.total

    def spent(self, now: float) -> float:
        """What it spent on its share in the last period: not what it inherited."""
        return self._recent.spent(now)

    # What it wants.

    def want(self, waiting: float, gathering: float, now: float) -> None:
        """So much waits to be spent, of which `gathering` is needed in one piece."""
        self._waiting = waiting
        if not waiting:
            self._shortage.note(False, now)
        if not self.units:
            self._missed = max(self._missed, waiting)
        if not self._gathering:
            self._gathers_since = now
        self._gathering = gathering

    def short(self, short: bool, now: float) -> None:
        """Whether something that could start has to wait for capacity, from now on."""
        self._shortage.note(short, now)

    def _need(self, now: float) -> float:
        """What was spent in the last period is likely to be wanted again in the next one. If little
        is asked for at a time, more: what could have been spent without waiting."""
        spent = self.spent(now) + self.permit.recent(now, self.ledger.period)
        unspent = self._shortage.unspent(spent)
        return max(self._waiting, self._missed, self._gathering, unspent) + spent

    @property
    def asked(self) -> float:
        """What it needed when it last asked."""
        return self._asked_need

    def look_again(self, capacity: float | None = None) -> None:
        """The terms were changed, to this `capacity`: asks soon how much of that is in force."""
        if capacity is not None:
            self.terms = replace(self.terms, capacity=capacity, in_force=self.capacity)
        self._curious = True

    def permit_wait(self, now: float) -> float:
        """For how long it has waited for a permit."""
        return 0.0 if self._asks_since is None else now - self._asks_since

    # When to ask, and what.

    def next_call(self, now: float) -> float:
        """When the next request is due; infinity if there is nothing to say."""
        if self._sent_backs and not self._failures:
            return now if self._sent_backs <= MAX_AT_ONCE else self._last_call + self.interval
        if self.pending is not None:
            idle = not (self._waiting or self._missed) and now >= self.until
            return math.inf if idle else self._next_call
        soon = self._last_call + (MIN_REQUEST_INTERVAL if self._asked_need else 0.0)
        if self.permit.number:
            if self.permit.is_open(now):
                return max(soon, self.permit.until)
            if not self.units:
                return soon
        if self._urgent(now):
            return max(self._next_call if self._failures else -math.inf, soon)
        if self._curious:
            return soon
        if self._asked_need or self._waiting or self._missed or self.units or self._seq == 0:
            return self._next_call
        return self._next_call if self.permit.number else math.inf

    def _urgent(self, now: float) -> bool:
        if self.left or self._seq == 0 or self.reply is None:
            return False
        need = min(self._need(now), self.capacity)
        if (self._waiting or self._missed) and need > 2 * min(self._asked_need, self.capacity):
            return True
        if not covers(max(self._asked_gathering, self._worth(self.units)), self._gathering):
            return True
        return self._surplus(now) * WORTH_A_CALL > self.units

    def compose(self, now: float, totals: tuple[float, ...] = ()) -> Request:
        """The request to send now: the one that was not answered, or a new one."""
        if now >= self.until:
            self.units = 0
        if self.pending is None:
            self._look_back(now)
            self._asked_gathering = self._gathering
            self._curious = False
            self._begin(self._request(self._surplus(now), now, leaving=False, totals=totals), now)
        return self._copy(now)

    def leave(self, now: float, totals: tuple[float, ...] = ()) -> Request:
        """The last request, which gives back everything. A pending one is sent first."""
        assert self.pending is None
        if now >= self.until:
            self.units = 0
        self.left = True
        self._waiting = self._missed = self._gathering = 0.0
        released = last_release(self.ledger, self.units, self._worth(self.units), now)
        self._begin(self._request(released, now, True, totals), now)
        return self._copy(now)

    def _begin(self, request: Request, now: float) -> None:
        self.pending = request
        self._composed = now
        self._tries = 0

    def _copy(self, now: float) -> Request:
        """The pending request, with what is known of the server's clock by now."""
        assert self.pending is not None
        self._last_call = now
        self._missed = 0.0
        confirmed = self._clock.at(self._server, now, self.terms.span / 1000)
        return replace(self.pending, confirmed=confirmed, tries=self._tries)

    def _look_back(self, now: float) -> None:
        self._shortage.requested(max(now - self._last_call, MIN_REQUEST_INTERVAL), now)
        count = self.ledger.charges
        before, at = self._counted
        total = self.ledger.total() + self.ledger.starting
        if count > before:
            self._piece = (total - at) / (count - before)
        elif self._shortage.since is not None and not self._gathering:
            # What waits needs no gathering: it costs less than batches before it may have cost.
            self._piece = min(self._piece, self.burst(now))
        self._counted = count, total

    def _request(
        self, released: int, now: float, leaving: bool, totals: tuple[float, ...]
    ) -> Request:
        number, used = self.permit.close(now)  # first: what it paid for is needed again
        need = self._asked_need = 0.0 if leaving else self._need(now)
        spent = self.spent(now)
        history, stamped = self._part_with(released, now)
        ask, gathers = (0.0, False) if leaving else self._ask(now)
        if gathers and not self._piece:
            self._piece = ask  # what it needs a share for, also when it does not ask for a moment
        by_permit = self.permit.recent(now, self.ledger.period)
        since = self._gathers_since if gathers else self._shortage.since
        if not ask:
            self._asks_since = None
        elif self._asks_since is None:
            self._asks_since = now
        self._seq += 1
        return replace(
            self.profile,
            seq=self._seq,
            terms=self.terms,
            born=self.reply.born if self.reply is not None else 0,
            server=self._server,
            # Rather younger than it is: an answer of another server may then be news.
            age=math.floor((now - self._answered) * 1000 * (1 - 2 * DRIFT)) if self._server else 0,
            nonce=self._nonce,
            ended=self._ended,
            units=self.units,
            left=max(0, math.floor((self.until - now) * 1000)) if self.units else 0,
            released=released,
            history=history,
            stamped=stamped,
            need=need,
            by_permit=by_permit,
            ask=ask,
            gathers=gathers,
            waited=0 if since is None or not ask else math.floor((now - since) * 1000),
            valid=self._valid,
            piece=ask if gathers else self._piece,
            interval=math.ceil(self.interval * 1000),
            spent=spent + by_permit,
            leaving=leaving,
            permit=number,
            permit_spent=used,
            totals=totals,
        )

    @property
    def _valid(self) -> int:
        return max(1, min(MAX_PERMIT_MS, self.terms.period // 4 + 20, self.terms.lease // 2))

    def _ask(self, now: float) -> tuple[float, bool]:
        """The cost for which it asks for a permit, and whether it can spend nothing before."""
        worth = self._worth(self.units) if now < self.until else 0.0
        if self._gathering and not covers(worth, self._gathering):
            return self._gathering, True
        piece = self._piece
        if self._shortage.since is None or not piece or worth >= WHOLE_BATCHES * piece:
            return 0.0, False
        spent = self.ledger.spent(now)  # first: what has begun is pledged no longer
        room = worth - self.ledger.pledged - spent + self.ledger.starting
        return (0.0, False) if covers(room, piece) else (piece, False)

    def _surplus(self, now: float) -> int:
        """What it may not keep."""
        if self.reply is None or now >= self.until:
            return 0
        return releasable(
            self.ledger,
            max(0, self.units - self.reply.keep),
            self.units,
            self._worth(self.units),
            now,
        )

    def _part_with(
        self, released: int, now: float
    ) -> tuple[tuple[tuple[int, float], ...], tuple[tuple[int, float], ...]]:
        if not released:
            return (), ()
        part = 1.0 if self.left else released / self.units
        own, stamped = self.ledger.split(part, now)
        self.ledger.changed_hands(part, now)
        self.units -= released
        self.settle(now)
        return in_slices(own, now, self.terms.period), stamped

    # What came of it.

    def unanswered(self, now: float) -> None:
        """No reply came: the request has to be sent again, after a while."""
        self._next_call = now + min(self.interval, MIN_REQUEST_INTERVAL * 2**self._failures)
        self._failures = min(self._failures + 1, 10)

    def answered(self, reply: Reply, sent_at: float, now: float) -> News:
        """Follows a reply to the copy of the request that was sent at `sent_at`."""
        self._failures = 0
        if reply.kind is Kind.RETRY:
            self._tries += 1
            self._sent_backs += 1
            return News()
        self._nonce = reply.nonce
        if reply.kind in (Kind.CHALLENGE, Kind.REFUSED):
            return self._sent_back(reply, now)
        valid = self.pending.valid if self.pending is not None else 0
        self.pending = None
        self._sent_backs = 0
        if reply.kind is not Kind.ANSWER:
            return News(disowned=True)
        self._confirm(reply, sent_at, now)
        self._follow(reply.terms, reply.certain, now)
        for stamp, cost in reply.given:
            age = reply.now - stamp
            self.ledger.receive(stamp, cost, now + (self.terms.counts - age) / 1000)
        costs, worth = [cost for _, cost in reply.given], self._worth(reply.units)
        if (
            math.fsum(costs) > self.ledger.even_burst * worth
        ):  # else room comes back as it always does
            self.ledger.changed_hands(max(costs) / worth, now)
        self.units = reply.units
        if not self.left:
            until = self._composed + usable_lease(self.terms.lease) / 1000
            if now < self.tenure.until:
                self.tenure.until = until
            else:  # what was charged before has lapsed
                self.tenure = Tenure(until)
        permit = 0.0
        if reply.permit and (self.reply is None or reply.permit != self.reply.permit):
            permit = reply.permit_cost
            self.permits += 1
            self._asks_since = None
            self.permit.open(reply.permit, permit, self._composed + (valid - 1) / 1000)
        self.reply = reply
        self.settle(now)
        self._next_call = sent_at + self.interval
        if reply.back >= 0:
            back = max(sent_at + MIN_REQUEST_INTERVAL, now + reply.back / 1000)
            self._next_call = min(self._next_call, back)
        return News(answered=True, permit=permit)

    def _sent_back(self, reply: Reply, now: float) -> News:
        """A challenge, or a refusal: the request will not be answered. The next one says so."""
        self.pending = None
        self._ended = True
        if reply.kind is Kind.CHALLENGE:
            self._sent_backs += 1
            return News()
        # What an operator has set everybody follows; so does one that followed what was lost since.
        if reply.terms.version or self._configured.agrees(reply.terms):
            self._follow(reply.terms, False, now)
            self._sent_backs += 1
            return News()
        self._sent_backs = 0
        self._next_call = now + self.interval
        return News(refused=reply.terms)

    def _confirm(self, reply: Reply, sent_at: float, now: float) -> None:
        if reply.server != self._server:
            self.ledger.inherited.forget_stamps()
        self._server, self._answered, self._ended = reply.server, self._composed, False
        self._clock.exchanges.append(Exchange(reply.server, reply.now, sent_at, now - sent_at))

    def _follow(self, terms: Terms, certain: bool, now: float) -> None:
        if terms.period != self.terms.period:
            self.ledger.set_period(terms.period / 1000, now)
        self.terms = replace(terms, served=certain or self.terms.served)
        self.interval = min(self._longest_interval, max(MIN_REQUEST_INTERVAL, terms.lease / 4000))


def in_slices(
    entries: list[tuple[float, float]], now: float, period: int
) -> tuple[tuple[int, float], ...]:
    """(when, cost) as (age in milliseconds, cost), never older than it was."""
    width = max(1, period // HISTORY_SLICES)
    ages: dict[int, float] = {}
    for at, cost in entries:
        if cost > 0:
            age = max(0, math.floor((now - at) * 1000 / width) * width)
            ages[age] = ages.get(age, 0.0) + cost
    return tuple(sorted(ages.items()))
