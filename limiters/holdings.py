"""One instance's part of a shared limit: what it holds and until when, what it may spend, what
to ask next. Pure: whoever drives it tells the time, sends the requests and brings the replies.

The rules that keep every window within the limit, on this side:

* A request is sent again, as it is, until it is answered: then it is known what became of
  everything in it. There is never a second one under way. But its proof of a lease is left
  out once that lease is over.
* What is released stops being spent when the request is made, and takes its part of the
  ledger along. What is set aside, or charged and not begun, is covered by what is kept.
* Leases are reckoned from before the request was sent, less a margin for clocks that do not
  run alike; what others spent from when the reply came.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from limiters.float_error import FLOAT_ERROR, covers
from limiters.leases import ranges
from limiters.leases.messages import History, Reply, Request, Terms, partitions_of
from limiters.leases.ranges import EMPTY, Ranges
from limiters.window import UNEVEN_BURST, Tenure, WindowLedger

DRIFT = 0.01
"""The share by which an instance's clock may run slower than the coordinator's."""

WINDOW_DRIFT = 0.006
"""The share by which it may run faster than those of others, before windows are over."""

MARGIN = 0.003
"""Seconds by which a lease ends sooner, beside the drift."""

SOONEST = 0.05
"""Seconds between two requests, however urgent the second is."""

LATEST = 1.5
"""How many sync intervals a request may be put off, to when something is expected."""

MOST_SHORT = 0.5
"""The share of the time that it counts at most as being short of capacity: so it asks for no
more than twice what it spent. Whoever could spend even more asks again a little later."""

SLICES = 200
"""What was spent is told in slices of a period, rounded to the later end."""


@dataclass(frozen=True, slots=True)
class News:
    """What a reply has changed."""

    gained: Ranges = EMPTY
    lost: Ranges = EMPTY
    released: Ranges = EMPTY
    """What it gave back with the request that was answered."""
    missing: int = 0
    """How many partitions were wanted and not granted."""
    disowned: bool = False
    """Somebody else uses the same identity: it has to be given up."""


class Holdings:
    """See the module. Not thread-safe."""

    def __init__(
        self,
        instance: str,
        terms: Terms,
        *,
        interval: float = 0.5,
        weight: float = 1.0,
        reserved: float = 0.0,
        label: str = "",
    ) -> None:
        self.instance = instance
        self.terms = terms
        """Those it follows: its own, until it is told of those in force."""
        self._divide(terms.capacity)
        self.interval = interval
        self.weight = weight
        self.reserved = reserved
        self.label = label
        self.held = EMPTY
        self.tenure = Tenure(-math.inf)
        self.ledger = WindowLedger(0.0, terms.period_ms / 1000, drift=WINDOW_DRIFT)
        self.told: Reply | None = None
        self.pending: Request | None = None
        """The request that is under way, or has to be sent again."""
        self.left = False

        self._waiting = 0.0
        self._missed = 0.0
        """What waited while nothing was held: it counts once, though it may wait no more."""
        self._gathering = 0.0
        self._gathers_since = 0.0
        self._short_since: float | None = None
        """Since when somebody had to wait for capacity; None if nobody has to."""
        self._was_short = 0.0
        """Seconds for which somebody had to, since the last request."""
        self._shortage = 0.0
        """That, as a share of the time between the last two requests."""
        self._asked = 0
        self._asked_gathering = 0.0
        self._seq = 0
        self._until_ms = 0
        self._last_call = -math.inf
        self._next_call = -math.inf
        self._failures = 0
        self._curious = False
        """Whether something has changed that the next reply alone can tell of."""

    @property
    def until(self) -> float:
        """When it has to stop spending, by its own clock."""
        return self.tenure.until

    # What it may spend.

    def settle(self, now: float) -> float:
        """What it holds at this time, in cost; the ledger knows it from now on."""
        worth = self._worth(self.held) if now < self.until else 0.0
        self.ledger.set_capacity(worth)
        return worth

    def _worth(self, held: Ranges) -> float:
        factor, full = self.terms.factor, self._full
        worth = ranges.count_below(held, full) * factor
        if self._partitions > full and ranges.holds(held, full):
            worth += self.capacity - full * factor
        return worth

    def _divide(self, capacity: float) -> None:
        self.capacity = capacity
        """The shared capacity in force, as far as is known."""
        self._partitions = partitions_of(capacity, self.terms.factor)
        self._full = math.floor(capacity / self.terms.factor + FLOAT_ERROR)

    @property
    def _last(self) -> Ranges:
        """The partition that is worth only a remainder, if there is one."""
        return ranges.span(self._full, self._partitions)

    def burst(self, now: float) -> float:
        """What may go at once after a rest; of one partition, if it holds none."""
        # Not more: whoever waits for that much to come together would wait for ever.
        if self.settle(now):
            return self.ledger.burst(now)
        return min(self.terms.factor, self.capacity) * UNEVEN_BURST

    # What it wants.

    def want(self, waiting: float, gathering: float, now: float) -> None:
        """So much waits to be spent, of which `gathering` has to come together in one piece."""
        self._waiting = waiting
        if not waiting:
            self.short(False, now)
        if not self.held:
            self._missed = max(self._missed, waiting)
        if gathering != self._gathering:
            self._gathering = gathering
            self._gathers_since = now

    def short(self, short: bool, now: float) -> None:
        """Whether somebody who could go on has to wait for capacity, from now on."""
        if self._short_since is not None:
            self._was_short += now - self._short_since
        self._short_since = now if short else None

    def _need(self, now: float) -> float:
        """What was spent in the last period is likely to be wanted again in the next one. Of one
        who asks for a little at a time, more: what it could have spent without having to wait."""
        spent = self.ledger.spent(now)
        more = spent / (1 - self._shortage) - spent
        return max(self._waiting, self._missed, self._gathering, more) + spent

    @property
    def asked(self) -> int:
        """How many partitions it wanted when it last asked."""
        return self._asked

    def look_again(self, capacity: float) -> None:
        """The shared capacity was changed: asks at once what that means."""
        self.terms = replace(self.terms, capacity=capacity)
        self._curious = True

    # When to ask, and what.

    def next_call(self, now: float) -> float:
        """When the next request is due; infinity for one who has nothing to say."""
        if self._urgent(now):
            return max(self._next_call if self._failures else 0.0, self._last_call + SOONEST)
        if self.pending is not None:
            idle = not (self._waiting or self._missed) and now >= self.until
            return math.inf if idle else self._next_call
        if self._curious:
            return self._last_call + SOONEST
        if self.held or self._asked or self._waiting or self._missed or self._seq == 0:
            return self._next_call
        return math.inf

    def _urgent(self, now: float) -> bool:
        if self.pending is not None or self.left or self._seq == 0:
            return False
        wanted = self._wanted(now)
        waiting = self._waiting or self._missed
        if waiting and wanted > self._asked and (not self.held or wanted >= 2 * self._asked):
            return True
        if not covers(max(self._asked_gathering, self._worth(self.held)), self._gathering):
            return True
        return self.told is not None and self.told.at_once and bool(self._surplus(now))

    def _wanted(self, now: float) -> int:
        return min(self._partitions, partitions_of(self._need(now), self.terms.factor))

    def compose(self, now: float, totals: tuple[float, ...] = ()) -> Request:
        """The request to send now: the one that was not answered, or a new one, which tells
        `totals` too."""
        if self.pending is None:
            self._look_back(now)
            self._asked = self._wanted(now)
            self._asked_gathering = self._gathering
            self._curious = False
            self.pending = replace(self._request(self._surplus(now), now), totals=totals)
        if now >= self.until:
            # Not to be taken for proof by a server whose clock is behind: others may hold it.
            self.pending = replace(self.pending, until_ms=0)
        self._last_call = now
        self._missed = 0.0
        return self.pending

    def _look_back(self, now: float) -> None:
        self.short(self._short_since is not None, now)
        since = max(now - self._last_call, SOONEST)
        self._shortage = min(self._was_short / since, MOST_SHORT)
        self._was_short = 0.0

    def leave(self, now: float, totals: tuple[float, ...] = ()) -> Request:
        """The last request, which gives back everything. One under way is sent first."""
        assert self.pending is None
        self.left = True
        self._asked = 0
        self._waiting = self._missed = self._gathering = self._shortage = 0.0
        last = self._request(self._spare(self.held), now)
        self.pending = replace(last, leaving=True, totals=totals)
        return self.pending

    def _request(self, released: Ranges, now: float) -> Request:
        spent, need = self.ledger.spent(now), self._need(now)
        history = self._part_with(released, now)
        self._seq += 1
        waited = now - self._gathers_since if self._gathering else 0.0
        return Request(
            instance=self.instance,
            seq=self._seq,
            terms=self.terms,
            held=self.held,
            until_ms=self._until_ms,
            released=released,
            history=history,
            need=need,
            gathering=self._gathering,
            waited_ms=int(waited * 1000),
            weight=self.weight,
            interval_ms=math.ceil(self.interval * 1000),
            spent=spent,
            reserved=self.reserved,
            label=self.label,
            born_ms=self.told.born_ms if self.told else 0,
        )

    def _surplus(self, now: float) -> Ranges:
        """What it may not keep, or does not need."""
        if self.told is None:
            return EMPTY
        wanted = self._wanted(now)
        full = ranges.common(self.held, ranges.span(0, self._full))
        last = ranges.common(self.held, self._last)
        gone = ranges.without(self.held, ranges.union(full, last))
        keep = min(self.told.keep, wanted)
        surplus = ranges.highest(full, max(0, ranges.count(full) - keep))
        if last and (not self.told.keep_last or ranges.count(full) >= wanted):
            surplus = ranges.union(surplus, last)
        return self._spare(ranges.union(surplus, gone))

    def _spare(self, surplus: Ranges) -> Ranges:
        """As much of `surplus` as can go while what may begin at any moment is covered."""
        pledged = self.ledger.pledged
        while surplus and not covers(self._worth(ranges.without(self.held, surplus)), pledged):
            surplus = ranges.without(surplus, ranges.lowest(surplus, 1))
        return surplus

    def _part_with(self, released: Ranges, now: float) -> History:
        if not released:
            return ()
        before = self._worth(self.held)
        self.held = ranges.without(self.held, released)
        kept = self._worth(self.held)
        began = self.ledger.spent(now) - self.ledger.starting
        goes = began * (1 - kept / before) if before and self.held else began
        # What is kept has to cover what is left.
        taken = self.ledger.take_out(max(goes, began + self.ledger.pledged - kept), now)
        self.settle(now)
        return in_slices(taken, now, self.terms.period_ms)

    # What came of it.

    def unanswered(self, now: float) -> None:
        """No reply came: the request has to be sent again, after a while."""
        self._next_call = now + min(self.interval, SOONEST * 2**self._failures)
        self._failures = min(self._failures + 1, 10)

    def answered(self, reply: Reply, sent_at: float, now: float) -> News:
        """Follows a reply to the request that was last sent, at `sent_at`."""
        released = self.pending.released if self.pending else EMPTY
        self.pending = None
        self._failures = 0
        if reply.stale:
            return News(disowned=True)
        self._follow(reply, now)
        gained = ranges.without(reply.held, self.held)
        lost = ranges.without(self.held, reply.held)
        self.held = reply.held
        for age_ms, cost in reply.history:
            self.ledger.receive(cost, now - age_ms / 1000, now)
        if not self.left:
            self._hold_until(sent_at + reply.lease_ms / 1000 * (1 - DRIFT) - MARGIN, now)
            self._until_ms = reply.until_ms
        self.settle(now)
        self._next_call = sent_at + self.interval
        if reply.come_back_ms >= 0:
            back = now + reply.come_back_ms / 1000
            if back <= sent_at + LATEST * self.interval:
                self._next_call = max(back, sent_at + SOONEST)
        missing = max(0, self._asked - ranges.count(self.held))
        return News(gained, lost, released, missing)

    def _hold_until(self, until: float, now: float) -> None:
        if now < self.tenure.until:
            self.tenure.until = until
        else:  # what was charged before has lapsed
            self.tenure = Tenure(until)

    def _follow(self, reply: Reply, now: float) -> None:
        if reply.terms.period_ms != self.terms.period_ms:
            self.ledger.set_period(reply.terms.period_ms / 1000, now)
        self.terms = reply.terms
        self._divide(reply.capacity)
        self.interval = min(self.interval, max(SOONEST, reply.lease_ms / 4000))
        self.told = reply


def in_slices(entries: list[tuple[float, float]], now: float, period_ms: int) -> History:
    """(when, cost) as (age in milliseconds, cost), never older than it was."""
    slice_ms = max(1, period_ms // SLICES)
    ages: dict[int, float] = {}
    for at, cost in entries:
        if cost > 0:
            age_ms = max(0, math.floor((now - at) * 1000 / slice_ms) * slice_ms)
            ages[age_ms] = ages.get(age_ms, 0.0) + cost
    return tuple(sorted(ages.items()))
