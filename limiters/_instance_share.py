"""One instance's share of a limit: what it holds and until when, what it may spend, what it
requests next. Pure: its driver passes the time, sends the requests and brings the replies.

What is held of each bound, and spent on it, is in `_bound_share`; here is what all bounds of a
limit have in common. The rules that keep every window within the limit, on this side:

* A request is sent again, as it is, until it is answered or the server says that it cannot be
  answered any more (a challenge). So it is known what became of everything in it.
* What is released is no longer spendable once the request is composed; the same fraction of every
  entry of the ledger is sent with it.
* A lease is counted from before its request was sent, less a margin for the rate of clocks.
* A permit is used before it ends, and reported by the next request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from limiters._bound_share import TRACE, BoundShare, RateShare, shares_of
from limiters._budgets.debts import ROOM
from limiters._budgets.permit import PermitBudget
from limiters._budgets.permit_corrections import WORTH_ASKING
from limiters._budgets.spend import Tenure, nothing
from limiters._budgets.window import WindowLedger
from limiters._costs import AnyCost, Costs
from limiters._needs import Wanted, needs_of
from limiters._support.float_error import covers
from limiters.leases._bounds import bounds_of
from limiters.leases._confirmed_clock import ConfirmedClock, Exchange
from limiters.leases._format import DRIFT, MAX_PERMIT_MS, WHOLE_BATCHES
from limiters.leases._layout import names_of
from limiters.leases._messages import (
    BoundRequest,
    Kind,
    Reply,
    Request,
    Terms,
    usable_lease,
)
from limiters.limits import Bound

MIN_REQUEST_INTERVAL = 0.05
"""Seconds between two requests, however urgent the second is; but not after a challenge."""

WORTH_A_CALL = 4
"""A surplus of more than this part of what it holds is released at once, a smaller one with the
next sync."""

POLLING = 2
"""How many of those who wait for a permit ask again before their next sync, because room may have
come with refunds of others."""

MAX_AT_ONCE = 4
"""How many requests in a row may be sent back and follow each other without a pause."""


@dataclass(frozen=True, slots=True)
class News:
    """What a reply has changed."""

    answered: bool = False
    """Whether it is an answer: not if the request was only sent back."""
    permit: tuple[float, ...] = ()
    """The cost of a permit that was granted, by bound; () for none."""
    disowned: bool = False
    """Another process uses the same identity: it has to be given up."""
    refused: Terms | None = None
    """The terms in force, with which this instance's do not agree."""


class InstanceShare:
    """See the module. Not thread-safe.

    Costs are what users have: a number if the limit has one dimension, Costs otherwise. `units`,
    `ledger`, `permit` and `capacity` are those of the first bound: of a limit that has one.
    """

    def __init__(
        self,
        instance: str,
        terms: Terms,
        *,
        interval: float = 0.5,
        bounds: Sequence[Bound] = (),
        reserved: AnyCost = 0.0,
        freed: Callable[[], object] = nothing,
        **profile: Any,
    ) -> None:
        """`bounds`: those of the limit as its user named them, if the terms do not say all. `freed`
        is called after a slot was freed, by the thread that did it."""
        self.instance = instance
        self.terms = terms
        """Its own, until a reply brings those in force."""
        self.profile = Request(instance, 0, terms, (), **profile)
        """What it says of itself in every request, such as its weight."""
        self._configured = terms
        bounds = bounds or bounds_of(terms)
        self._dimensions = tuple(one.dimension for one in bounds)
        self.bounds = shares_of(terms, bounds, freed)
        self._rates = [one for one in self.bounds if isinstance(one, RateShare)]
        self.reserve(reserved)
        self.interval = interval
        self._longest_interval = interval
        self.tenure = Tenure(-math.inf)
        self.reply: Reply | None = None
        """The last answer."""
        self.pending: Request | None = None
        """The request that is under way, or has to be sent again."""
        self.leaves = False
        """Whether it begins no call any more, and gives back what it holds."""
        self.lingers = False
        """Whether it has given back all but what calls hold that still run."""
        self.left = False
        """Whether its last request was composed."""
        self.permits = 0
        """How many permits it was granted."""

        self._asks_since: float | None = None
        """Since when it has asked for a permit; None if it does not."""
        self._gathers_since = 0.0
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
    def units(self) -> int:
        """Those of the first bound."""
        return self.bounds[0].units

    @property
    def ledger(self) -> WindowLedger:
        """That of the first bound, where it is a rate."""
        return self._rates[0].ledger

    @property
    def permit(self) -> PermitBudget:
        """That of the first bound."""
        return self.bounds[0].permit

    @property
    def capacity(self) -> float:
        """The shared capacity of the first bound that is in force, as far as is known."""
        return self.bounds[0].capacity

    def by_bound(self, cost: AnyCost | tuple[float, ...]) -> tuple[float, ...]:
        """What a cost is for each bound, unless it says so itself."""
        if isinstance(cost, tuple):
            return cost
        if isinstance(cost, Costs):
            return tuple(cost.amount(dimension) for dimension in self._dimensions)
        return (cost,) * len(self._dimensions)

    def partitions_of_bounds(self) -> list[float]:
        """What a partition is worth in each bound."""
        factor, first = self.terms.factor, self.terms.capacity
        return [factor, *(factor / first * one.terms.capacity for one in self.bounds[1:])]

    def describe(self, label: str) -> None:
        """Say this of itself, to people, from the next request on."""
        self.profile = replace(self.profile, label=label)

    # What it may spend.

    def settle(self, now: float) -> float:
        """What it holds of the first bound at this time, in cost; all ledgers follow."""
        held = now < self.until and not self.lingers
        worths = [one.settle(held, now) for one in self.bounds]
        return worths[0]

    def burst(self, now: float) -> float:
        """What may be spent at once of the first bound, after a rest."""
        return self.bounds[0].burst(now < self.until, self.terms.factor, now)

    def spent(self, now: float) -> float:
        """What it spent on its share of the first bound in the last period: not what it
        inherited."""
        return self.bounds[0].spent(now)

    # What it wants.

    def reserve(self, reserved: AnyCost) -> None:
        """So much may be spent besides, by this instance alone."""
        for bound, one in zip(self.bounds, self.by_bound(reserved), strict=True):
            bound.reserved = one

    def want(
        self,
        waiting: AnyCost | tuple[float, ...],
        gathering: AnyCost | tuple[float, ...],
        now: float,
    ) -> None:
        """So much waits to be spent, of which `gathering` is needed in one piece: by the batch that
        goes next."""
        if not any(one.gathering for one in self.bounds):
            self._gathers_since = now
        both = zip(self.by_bound(waiting), self.by_bound(gathering), strict=True)
        for bound, (waits, gathers) in zip(self.bounds, both, strict=True):
            bound.want(waits, gathers, now)

    def short(self, short: bool | Sequence[bool], now: float) -> None:
        """Whether something that could start has to wait for capacity, from now on: of any bound,
        or of each one."""
        each = [short] * len(self.bounds) if isinstance(short, bool) else short
        for bound, one in zip(self.bounds, each, strict=True):
            bound.shortage.note(one, now)

    @property
    def _waits(self) -> bool:
        return any(one.waiting or one.missed for one in self.bounds)

    @property
    def _short_since(self) -> float | None:
        """Since when something has had to wait for what permits are for."""
        since = [one.shortage.since for one in self._rates]
        return min((one for one in since if one is not None), default=None)

    def _needs(self, now: float) -> list[float]:
        # While the only bound is not short, instances may hold more than they need. If another one
        # is short, they may not, and a share of a long window comes in over the whole window.
        several = len(self.bounds) > 1
        wanted = [
            Wanted(
                need=max(one.need(now), one.soon()) if several else one.need(now),
                mix=one.mix(now),
                lately=one.lately(now),
                capacity=max(one.capacity, one.terms.capacity),
                period=one.terms.period / 1000,
                slots=one.terms.slots,
            )
            for one in self.bounds
        ]
        sampled = max((one.sampled(now) for one in self._rates), default=0.0)
        needs = needs_of(wanted, max(self.interval, sampled))
        return self._with_unasked(needs, TRACE, now) if any(needs) else needs

    def _with_unasked(self, amounts: Sequence[float], part: float, now: float) -> list[float]:
        """At least this part of each bound in which calls cost something that was not estimated."""
        both = zip(self.bounds, amounts, strict=True)
        return [max(amount, bound.unasked(part, now)) for bound, amount in both]

    @property
    def asked(self) -> float:
        """What it needed of the first bound when it last asked."""
        return self.bounds[0].asked_need

    @property
    def partitions_asked(self) -> float:
        """The same in partitions, of the bound of which it asked for the largest part."""
        parts = self.partitions_of_bounds()
        return max(one.asked_need / part for one, part in zip(self.bounds, parts, strict=True))

    @property
    def partitions_missing(self) -> float:
        """What it asked for and does not hold."""
        lacking = (
            (min(one.asked_need, one.capacity) - one.ledger.capacity) / part
            for one, part in zip(self.bounds, self.partitions_of_bounds(), strict=True)
        )
        return max(0.0, *lacking)

    @property
    def _asked(self) -> bool:
        return any(one.asked_need for one in self.bounds)

    def look_again(self, capacity: Mapping[str, float] | float | None = None) -> None:
        """The terms were changed: asks soon how much of this `capacity` is in force; by the names
        that people have for bounds, where there are several dimensions."""
        if capacity is not None:
            periods = [one.terms.period for one in self.bounds]
            names = names_of(self.terms.layout, periods)
            if not isinstance(capacity, Mapping):
                capacity = {names[0]: capacity}
            for name, bound in zip(names, self.bounds, strict=True):
                new = capacity.get(name, bound.terms.capacity)
                bound.terms = replace(bound.terms, capacity=new, in_force=bound.capacity)
            self.terms = replace(self.terms, bounds=tuple(one.terms for one in self.bounds))
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
            idle = not self._waits and now >= self.until
            return math.inf if idle else self._next_call
        soon = self._last_call + (MIN_REQUEST_INTERVAL if self._asked else 0.0)
        has_permit = any(one.permit.number for one in self._rates)
        if has_permit:
            if self._permit_is_open(now):
                return max(soon, self._permit_until)
            if not any(one.units for one in self._rates):
                return soon
        if self._urgent(now):
            return max(self._next_call if self._failures else -math.inf, soon)
        if self._curious:
            return soon
        holds = any(one.units for one in self.bounds)
        if self._asked or self._waits or holds or self._seq == 0 or has_permit:
            return self._next_call
        return math.inf

    def _permit_is_open(self, now: float) -> bool:
        """Whether a batch could still use it: in each bound that it is for."""
        permits = [one.permit for one in self._rates if one.permit.number]
        return all(one.is_open(now) for one in permits)

    @property
    def _permit_until(self) -> float:
        return max(one.permit.until for one in self._rates if one.permit.number)

    def _urgent(self, now: float) -> bool:
        if self.leaves or self._seq == 0 or self.reply is None:
            return False
        if self._waits and self._dominant(self._needs(now)) > 2 * self._dominant(
            [one.asked_need for one in self.bounds]
        ):
            return True
        if any(
            not covers(max(one.asked_gathering, one.worth(one.units)), one.gathering)
            for one in self.bounds
        ):
            return True
        if self._asks_since is not None and self._may_refund_enough():
            return True
        return now < self.until and any(
            one.surplus(now) * WORTH_A_CALL > one.units for one in self.bounds
        )

    def _may_refund_enough(self) -> bool:
        """Whether so much can be given back that it is worth asking again for a permit."""
        return any(
            one.asked_for and one.corrections.refundable() >= WORTH_ASKING * one.asked_for
            for one in self._rates
        )

    def _dominant(self, needs: Sequence[float]) -> float:
        """The largest of some needs, as a part of the limit."""
        both = zip(self.bounds, needs, strict=True)
        parts = (min(1.0, need / bound.capacity) for bound, need in both if bound.capacity)
        return max(parts, default=0.0)

    def compose(self, now: float, totals: tuple[float, ...] = ()) -> Request:
        """The request to send now: the one that was not answered, or a new one."""
        self._lapse(now)
        if self.pending is None:
            self._look_back(now)
            for one in self.bounds:
                one.asked_gathering = one.gathering
            self._curious = False
            released = [self._surplus(one, now) for one in self.bounds]
            self._begin(self._request(released, now, totals), now)
        return self._copy(now)

    def leave(self, now: float, totals: tuple[float, ...] = ()) -> Request:
        """The next of its last requests: it gives back all but what calls hold that still run.
        With the one after these have ended it has left. A pending one is sent first."""
        assert self.pending is None
        self._lapse(now)
        self.leaves = True
        for one in self.bounds:
            one.waiting = one.missed = one.gathering = 0.0
        self.left = not any(one.is_held_by_calls(now) for one in self.bounds)
        released = [
            one.last_release(now) if self.left else one.spare(one.units, now) for one in self.bounds
        ]
        self._begin(self._request(released, now, totals), now)
        return self._copy(now)

    def next_leave(self, now: float) -> float:
        """When the next of its last requests is due; infinity if there is none any more."""
        if self.left and self.pending is None:
            return math.inf
        if not self.lingers or (self._sent_backs and not self._failures):
            return now if self._sent_backs <= MAX_AT_ONCE else self._last_call + self.interval
        if now >= self.until:
            return math.inf  # what calls hold comes free by itself
        if self.pending is None and (
            not any(one.is_held_by_calls(now) for one in self.bounds)
            or any(one.spare(one.units, now) for one in self.bounds)
        ):
            return self._last_call + MIN_REQUEST_INTERVAL
        return self._next_call

    def _lapse(self, now: float) -> None:
        """Nothing is held any more once the lease has ended; calls that still run count on."""
        if now >= self.until:
            for one in self.bounds:
                one.units = 0

    def _surplus(self, bound: BoundShare, now: float) -> int:
        return 0 if self.reply is None or now >= self.until else bound.returned(now)

    def _begin(self, request: Request, now: float) -> None:
        self.pending = request
        self._composed = now
        self._tries = 0

    def _copy(self, now: float) -> Request:
        """The pending request, with what is known of the server's clock by now."""
        assert self.pending is not None
        self._last_call = now
        for one in self.bounds:
            one.missed = 0.0
        confirmed = self._clock.at(self._server, now, self.terms.span / 1000)
        return replace(self.pending, confirmed=confirmed, tries=self._tries)

    def _look_back(self, now: float) -> None:
        interval = max(now - self._last_call, MIN_REQUEST_INTERVAL)
        for one, partition in zip(self.bounds, self.partitions_of_bounds(), strict=True):
            one.look_back(interval, now < self.until, partition, now)
        if len(self.bounds) > 1:
            for one in self._rates:
                one.even_out(now)

    def _request(self, released: Sequence[int], now: float, totals: tuple[float, ...]) -> Request:
        # First: what a permit paid for is needed again.
        reports = [one.permit.close(now) for one in self.bounds]
        corrections = [one.correct(now) for one in self.bounds]
        needs = [0.0] * len(self.bounds) if self.leaves else self._needs(now)
        for bound, need in zip(self.bounds, needs, strict=True):
            bound.asked_need = need
        spent = [one.spent(now) for one in self.bounds]
        histories = [
            bound.part_with(units, now, leaving=self.left)
            for bound, units in zip(self.bounds, released, strict=True)
        ]
        self.settle(now)
        asks, gathers = self._ask(now)
        if gathers:
            for bound, ask in zip(self.bounds, asks, strict=True):
                bound.needs_share_for(ask)
        since = self._gathers_since if gathers else self._short_since
        for bound, ask in zip(self.bounds, asks, strict=True):
            bound.asked_for = ask
        if not any(asks):
            self._asks_since = None
        elif self._asks_since is None:
            self._asks_since = now
        if any(asks):
            asks = self._with_unasked(asks, ROOM, now)
        self._seq += 1
        holds = any(one.units for one in self.bounds)
        return replace(
            self.profile,
            seq=self._seq,
            terms=self.terms,
            bounds=tuple(
                BoundRequest(
                    units=bound.units,
                    released=units,
                    history=history,
                    stamped=stamped,
                    need=bound.asked_need,
                    by_permit=bound.by_permit(now),
                    ask=ask,
                    lacks=bound.lacks(ask, now < self.until, now),
                    piece=ask if gathers and ask and len(self.bounds) == 1 else bound.piece,
                    spent=before + bound.by_permit(now),
                    reserved=bound.reserved,
                    permit_spent=used,
                    **corrected._asdict(),
                )
                for bound, units, (history, stamped), ask, before, (_, used), corrected in zip(
                    self.bounds,
                    released,
                    histories,
                    asks,
                    spent,
                    reports,
                    corrections,
                    strict=True,
                )
            ),
            born=self.reply.born if self.reply is not None else 0,
            server=self._server,
            # Rather younger than it is: an answer of another server may then be news.
            age=math.floor((now - self._answered) * 1000 * (1 - 2 * DRIFT)) if self._server else 0,
            nonce=self._nonce,
            ended=self._ended,
            left=max(0, math.floor((self.until - now) * 1000)) if holds else 0,
            gathers=gathers,
            waited=0 if since is None or not any(asks) else math.floor((now - since) * 1000),
            valid=self._valid,
            interval=math.ceil(self.interval * 1000),
            leaving=self.left,
            permit=max(number for number, _ in reports),
            totals=totals,
        )

    @property
    def _valid(self) -> int:
        shortest = min((one.terms.period for one in self._rates), default=self.terms.lease)
        return max(1, min(MAX_PERMIT_MS, shortest // 4 + 20, self.terms.lease // 2))

    def _ask(self, now: float) -> tuple[list[float], bool]:
        """The cost for which it asks for a permit, by bound, and whether it can spend nothing
        before. For none while it lacks slots: no permit is for those."""
        nothing = [0.0] * len(self.bounds)
        held = now < self.until
        if self.leaves or any(
            one.shortage.since is not None and one.lacks(max(1.0, one.piece), held, now)
            for one in self.bounds
            if one.terms.slots
        ):
            return nothing, False
        gathering = [one.gathering if one in self._rates else 0.0 for one in self.bounds]
        worths = [one.worth(one.units) if held else 0.0 for one in self.bounds]
        if not all(map(covers, worths, gathering)):
            return gathering, True
        pieces = [one.piece if one in self._rates else 0.0 for one in self.bounds]
        batches = [worth / piece for worth, piece in zip(worths, pieces, strict=True) if piece]
        if self._short_since is None or not batches or min(batches) >= WHOLE_BATCHES:
            return nothing, False
        if any(gathering) and len(self.bounds) > 1:  # it costs more or less than others do
            pieces = gathering
        asked = zip(self.bounds, pieces, strict=True)
        return (pieces if any(one.lacks(ask, held, now) for one, ask in asked) else nothing), False

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
        self.lingers = self.leaves and not self.left
        for bound in self.bounds:
            same_server = reply.server == self._server
            bound.corrections.answered(reply.heard, bound.terms, same_server=same_server)
        self._confirm(reply, sent_at, now)
        self._follow(reply.terms, reply.certain, now)
        for bound, one in zip(self.bounds, reply.bounds, strict=True):
            bound.receive(one, reply.now, now)
        if not self.left:
            until = self._composed + usable_lease(self.terms.lease) / 1000
            if now < self.tenure.until:
                self.tenure.until = until
            else:  # what was charged before has lapsed
                self.tenure = Tenure(until)
        permit: tuple[float, ...] = ()
        if reply.permit and (self.reply is None or reply.permit != self.reply.permit):
            permit = tuple(one.permit_cost for one in reply.bounds)
            self.permits += 1
            self._asks_since = None
            until = self._composed + (valid - 1) / 1000
            for bound, one in zip(self.bounds, reply.bounds, strict=True):
                if one.permit_cost:
                    bound.permit.open(reply.permit, one.permit_cost, until)
                    bound.corrections.granted(one)
        self.reply = reply
        self.settle(now)
        self._next_call = sent_at + self.interval
        if reply.back >= 0:
            back = max(sent_at + MIN_REQUEST_INTERVAL, now + reply.back / 1000)
            self._next_call = min(self._next_call, back)
        if self._asks_since is not None and reply.ahead < POLLING:
            turn = self._pause_between_refunds(now) * (reply.ahead + 1)
            self._next_call = min(self._next_call, sent_at + max(MIN_REQUEST_INTERVAL, turn))
        return News(answered=True, permit=permit)

    def _pause_between_refunds(self, now: float) -> float:
        """How long the first of those who wait for a permit waits before it asks again, where calls
        cost less than was estimated: room then comes with refunds of others, and nobody knows when.
        Half the time in which a batch may start on average, so that it is two calls a batch."""
        pauses = [
            one.ledger.period * one.likely(now) * one.asked_for / one.capacity / 2
            for one in self._rates
            if one.asked_for and one.likely(now) < 1
        ]
        return max(pauses, default=math.inf)

    def _sent_back(self, reply: Reply, now: float) -> News:
        """A challenge, or a refusal: the request will not be answered. The next one says so."""
        self.pending = None
        self._ended = True
        for bound in self.bounds:
            bound.corrections.ended()
        if reply.kind is Kind.CHALLENGE:
            self._sent_backs += 1
            return News()
        # What an operator has set everybody follows; so does one that followed what was lost since.
        # But not other dimensions: what it spends is not counted in those.
        may_follow = reply.terms.version or self._configured.agrees(reply.terms)
        if may_follow and reply.terms.layout == self._configured.layout:
            self._follow(reply.terms, False, now)
            self._sent_backs += 1
            return News()
        self._sent_backs = 0
        self._next_call = now + self.interval
        return News(refused=reply.terms)

    def _confirm(self, reply: Reply, sent_at: float, now: float) -> None:
        if reply.server != self._server:
            for one in self.bounds:
                one.forget_stamps()
        self._server, self._answered, self._ended = reply.server, self._composed, False
        self._clock.exchanges.append(Exchange(reply.server, reply.now, sent_at, now - sent_at))

    def _follow(self, terms: Terms, certain: bool, now: float) -> None:
        for bound, one in zip(self.bounds, terms.bounds, strict=True):
            bound.follow(one, now)
        self.terms = replace(terms, served=certain or self.terms.served)
        self.interval = min(self._longest_interval, max(MIN_REQUEST_INTERVAL, terms.lease / 4000))
