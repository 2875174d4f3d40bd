"""The ledger of one limit: how much may be spent now, so that no window is ever over.

Pure: it reads no clock, starts no thread and takes no lock. Two rules bound what may go:

* the *window*: what was spent in any `period` is at most the capacity. An entry counts in
  full from the moment it is charged until one period after the callback it paid for began, or
  ended, if the limit counts from the end of calls;
* the *pace*: capacity comes in evenly, and at most a burst of it is kept for later, so that a
  full second is not fired in its first millisecond. Only an amount that is larger gathers for
  longer.

Fractions are carried: nothing is rounded but the age of an entry, to the safe side.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress

from limiters._budgets.debts import ROOM, Debts, TakesExcess
from limiters._budgets.inherited import InheritedSpending
from limiters._budgets.pace import Pace
from limiters._budgets.settlements import Settlements, Stay
from limiters._budgets.spend import ENDED, OPEN, BudgetEntry, Payment, Tenure, nothing
from limiters._budgets.spending import Spending
from limiters._budgets.started import StartedSpending
from limiters._support.float_error import ALL_BUT_ERROR, FLOAT_ERROR
from limiters.limits import BURST

NewEntry = Callable[[float, float, Tenure | None, Callable[[BudgetEntry], object]], BudgetEntry]
"""Of a cost, the time of its charge, the tenure, and what is called once it is settled."""

MOST_OF_LIMIT = 1e6
"""So many times its whole limit a call counts at most, and no less than was charged. It keeps all
else from starting for as long as if it counted for more; and what is taken back, since the call
costs less in the end, is exact to a billionth of the limit: other entries keep their cost."""


class WindowLedger:
    """The spending of the last period, and the room that it leaves. Not thread-safe.

    >>> ledger = WindowLedger(capacity=10, period=1.0)
    >>> ledger.available(now=0.0, at_least=10)
    10.0
    >>> ledger.hold(10)
    >>> ledger.charge(10, now=0.0).started(0.0)
    True
    >>> ledger.available(now=0.5, at_least=10)
    0.0
    >>> round(ledger.ready_at(10, now=0.5), 3)
    1.006
    """

    def __init__(
        self,
        capacity: float,
        period: float,
        *,
        burst: float = BURST,
        shared: bool = False,
        reserved: bool = False,
        freed: Callable[[], object] = nothing,
        whole: float = 0.0,
    ) -> None:
        """`burst`: the share of the capacity that may go without a pause after a rest. `shared`:
        with other processes, whose clocks judge its windows too. `reserved`: there is also a shared
        ledger, which counts what has no room here. `freed`: called after a call ended that cost
        less than estimated, by the thread that ends it. `whole`: the capacity of the limit of which
        this is a part."""
        self.capacity = capacity
        self._most = math.inf
        self.part_of(whole or capacity)
        self._new_entry: NewEntry = BudgetEntry
        self.settlements = Settlements(freed)
        self._settled = self.settlements.report
        self._to_settle = self.settlements.reported
        self._stay = Stay()
        self._corrected = 0.0
        self._shared = shared
        self.debts = Debts(shared=shared, reserved=reserved)
        self.pace = Pace(capacity, period, burst)
        self._started = StartedSpending(period, shared=shared)
        self._held = 0.0
        self._starting: list[BudgetEntry] = []
        self.inherited = InheritedSpending()
        self.charges = 0
        """How many batches it has paid for."""
        self._total = 0.0

    @property
    def period(self) -> float:
        """The seconds of a window."""
        return self.pace.period

    def burst(self, now: float) -> float:
        """Return what may go without a pause after a rest."""
        return self.pace.burst(now)

    def available(self, now: float, at_least: float = 0.0) -> float:
        """Return what may be charged now; amounts that are larger than a burst are given as
        `at_least`."""
        if not self.capacity:
            return 0.0
        return self._free(self.capacity - self._held - self.spent(now), now, at_least)

    def _free(self, room: float, at: float, at_least: float) -> float:
        return max(0.0, min(room, self.pace.available(at, at_least) - self._held))

    def outlook(self, now: float) -> Callable[[float, float], float]:
        """`available` for any time from `now` on, if nothing is spent until then."""
        rooms = [self.capacity - self._held - self.spent(now)]
        times: list[float] = []
        coming = self._coming_free(now)

        def available(at: float, at_least: float) -> float:
            while not times or times[-1] <= at:  # as far as a caller looks, and no further
                expires, freed = next(coming, (math.inf, 0.0))
                times.append(expires)
                rooms.append(rooms[-1] + freed)
            return self._free(rooms[bisect_right(times, at)], at, at_least)

        return available

    def hold(self, amount: float) -> None:
        """Sets `amount` aside for charges to come; no other caller is offered it meanwhile."""
        self._held += amount

    def charge(self, cost: float, now: float, tenure: Tenure | None = None) -> BudgetEntry:
        """Turns `cost` of what is held into an entry that counts from now on."""
        self._held -= cost
        entry = self._new_entry(cost, now, tenure, self._settled)
        if cost:
            self.charges += 1
        self.pace.note(entry)
        self._starting.append(entry)
        return entry

    def payment(self, cost: float, now: float, owner: object = None) -> Payment:
        """`cost` as begun now, to be entered without setting it aside before."""
        entry = self._new_entry(cost, now, None, self._settled)
        entry.paced = 0.0
        entry.started(now)
        return Payment.by(self, entry)

    def enter(self, entry: BudgetEntry) -> None:
        """Counts it from now on: by one step, and an interrupt before that has changed no more than
        the pace, by a moment."""
        if entry.cost:
            self.charges += 1
        self.pace.note(entry)
        self._starting.append(entry)

    def withdraw(self, entry: BudgetEntry, now: float) -> None:
        """Counts nothing of it any more, whether it was entered or not: its call is not made."""
        entry.state = ENDED
        if entry.place is None:
            with suppress(ValueError):  # it was not entered
                self._starting.remove(entry)
            self.pace.correct(entry, 0.0, 1.0, now)
        else:  # as a part of sums that never fall
            self._correct(entry, 0.0, now)
            self.settlements.account(entry, 0.0)

    def release(self, amount: float) -> None:
        """Gives back what was held and not charged."""
        self._held -= amount
        if abs(self._held) < self.capacity * FLOAT_ERROR:
            self._held = 0.0

    def ready_at(self, cost: float, now: float) -> float:
        """The earliest time at which `cost` may be available, as far as is known now."""
        self.settlements.awaited = True  # first: what is settled from here on wakes who waits
        if not self.capacity:
            return now + self.period if cost else now
        excess = self.spent(now) + self._held + cost * ALL_BUT_ERROR - self.capacity
        ready = max(now, self.pace.ready_at(cost + self._held))
        if excess <= 0:
            return ready
        for expires, freed in self._coming_free(now):
            excess -= freed
            if excess <= 0:
                return max(ready, expires)
        return max(ready, now + self.period)

    def in_debt_until(self, now: float) -> float:
        """Until when batches that are to cost nothing here wait nevertheless: others of them did
        cost something, and so much that nothing is left. Now, as a rule.

        >>> ledger = WindowLedger(capacity=10, period=1.0)
        >>> call = ledger.charge(0, now=0.0)
        >>> call.started(0.0), call.settle(12)
        (True, True)
        >>> ledger.in_debt_until(0.5) > 1.0, ledger.in_debt_until(1.5)
        (True, 1.5)
        """
        if self._to_settle:
            self._note_settlements(now)
            self._note_starts()
        if not self.debts.is_unasked(now):
            return now
        if self._shared and not self.capacity:  # how much is left to others is not known here
            return max(now, self.debts.until)
        full = 1 - ROOM if self._shared else ALL_BUT_ERROR
        excess = self.spent(now) - self.capacity * full
        for expires, freed in self._coming_free(now):
            if excess <= 0:
                break
            excess -= freed
            now = expires
        return now

    def set_capacity(self, capacity: float) -> None:
        """From now on no window is over `capacity`, which may be zero."""
        self.capacity = self.pace.capacity = capacity
        self.part_of(capacity)

    def part_of(self, whole: float) -> None:
        """The limit of which this is a part has this capacity, or had more."""
        if whole:
            known = 0.0 if self._most == math.inf else self._most
            self._most = max(known, MOST_OF_LIMIT * whole)

    def set_period(self, period: float, now: float) -> None:
        """From now on windows are of `period`; what has begun counts on, in the new one."""
        self.spent(now)
        entries = self._started.take(1.0)
        self.pace.period = period
        self._started = StartedSpending(period, shared=self._shared)
        for started_at, cost in entries:
            slice_ = self._started.slice_of(started_at)
            self._started.costs[slice_] = self._started.costs.get(slice_, 0.0) + cost

    def spent(self, now: float) -> float:
        """Return what counts now: what began in the last period, and what is about to begin."""
        if self._to_settle:
            self._note_settlements(now)
        self._note_starts()
        self.pace.look(now)
        self._started.expire(now)
        own = math.fsum((*self._started.costs.values(), self.starting))
        return own + self.inherited.total(now)

    def total(self) -> float:
        """Return what has begun, since this ledger was made, as estimated."""
        self._note_starts()
        return self._total

    def charged(self) -> float:
        """Return what was charged, since this ledger was made, and not cancelled, as estimated."""
        return self.total() + math.fsum(spend.estimated for spend in self._starting)

    def settled(self) -> float:
        """How much more the calls of `charged` have cost than estimated, as far as is known: less
        than zero if it was less."""
        return self._corrected

    def spending(self, now: float) -> Spending:
        """Return what was spent since this ledger was made, and what settlements have changed of
        it."""
        if self._to_settle:
            self._note_settlements(now)
        return Spending(self.total(), self.settlements.refunded, self.settlements.excess)

    @property
    def starting(self) -> float:
        """Return what is charged and has no time stamp yet, as far as is known: its call has not
        begun."""
        return math.fsum(spend.cost for spend in self._starting)

    @property
    def pledged(self) -> float:
        """Return what is set aside, or charged and has not begun: it may begin at any moment."""
        return self._held + self.starting

    def receive(self, stamp: int, cost: float, expires: float) -> None:
        """Counts `cost` that others have spent, until it expires."""
        self.inherited.add(stamp, cost, expires)

    def split(
        self, part: float, now: float
    ) -> tuple[list[tuple[float, float]], tuple[tuple[int, float], ...]]:
        """Takes `part` of every entry out, but of what has not begun: (when, cost) of one's own,
        and (time stamp, cost) of what is inherited."""
        self.spent(now)
        if part >= 1:  # the record of debts goes away with it
            self.debts.until = max(self.debts.until, self.in_debt_until(now))
        self._stay = self._stay.less(part)
        return self._started.take(part), self.inherited.split(part)

    def _note_starts(self) -> None:
        begun = [spend for spend in self._starting if spend.stamp is not None]
        if not begun:
            return
        place, started = (self._stay, self._stay.fraction), self._started
        for spend in begun:
            assert spend.stamp is not None
            cost, slice_ = spend.cost, 0
            if cost:
                slice_ = started.slice_of(spend.stamp)
            kept, before = cost, started.costs.get(slice_, 0.0)
            if cost > spend.estimated:
                kept = self._kept_of(spend, cost, slice_, 0.0, spend.stamp)
            if spend.place is None:  # from here on without a call, so that it is counted once
                if kept:
                    started.costs[slice_] = before + kept
                self._total += spend.estimated
                spend.entered, spend.noted = kept, cost
                spend.place = place
                spend.cost = 0
        # One by one: other calls may begin, or be charged, while this runs.
        try:
            for spend in begun:
                self._starting.remove(spend)
        except ValueError:  # a signal handler has removed one: the next look ends this
            return

    def _note_settlements(self, now: float) -> None:
        seen = tuple(self._to_settle)
        estimated = counted = 0.0
        for entry in seen:
            entry.reported = False  # first: what is settled from here on is reported again
            counts = entry.counts
            if counts > self._most:
                counts = max(entry.estimated, self._most)
            if entry.place is not None:
                self._correct(entry, counts, now)
            elif counts != entry.cost:
                self._corrected += counts - entry.cost
                entry.cost = counts
                self.pace.correct(entry, counts, 1.0, now)
            if entry.state is not OPEN and not entry.accounted:
                self.settlements.account(entry, counts)
                estimated += entry.estimated
                counted += counts if counts < entry.estimated else entry.estimated
        if estimated:
            self.pace.learn(estimated, counted, self._started.life)
        self.settlements.dealt_with(seen)

    def _correct(self, entry: BudgetEntry, counts: float, now: float) -> None:
        """`entry`, which has begun and was entered, counts for so much from now on. A refund is
        taken from its own part that stayed here. Of an excess, the part of those who have the rest
        of the entry now is owed to them."""
        assert entry.stamp is not None
        change, stayed = counts - entry.noted, self._stayed_of(entry)
        started, here = self._started, 0.0
        slice_ = started.slice_at(entry.stamp)
        counting = started.expires(slice_) > now
        if counting and change > 0:
            slice_ = started.slice_of(entry.stamp)
            here = self._kept_of(entry, change, slice_, entry.noted, now, stayed)
        elif counting and slice_ in started.costs:
            here = max(change, -entry.entered * stayed)
        after = max(0.0, started.costs.get(slice_, 0.0) + here)
        if here:  # from here on without a call, so that it is counted once
            started.costs[slice_] = after
            entry.entered += here / stayed
        entry.noted = counts
        self._corrected += change
        if counting:
            self.pace.correct(entry, counts, stayed, now)

    def _kept_of(
        self,
        entry: BudgetEntry,
        excess: float,
        slice_: int,
        before: float,
        now: float,
        stayed: float = 1.0,
    ) -> float:
        """Return how much of the `excess` of `entry` counts here, in this slice. The rest is noted
        as a debt that counts with others. `before`: what it has counted for until now."""
        self.debts.note(entry, self._started.expires(slice_))
        counting = math.fsum(self._started.costs.values()) + self.inherited.total(now)
        kept = self.debts.kept(entry, excess * stayed, self.capacity - counting)
        if kept < excess:
            when = self._started.time_of(slice_)
            self.debts.elsewhere[entry, before] = when, excess - kept
        return kept

    def pass_excess(self, to: TakesExcess, now: float) -> None:
        """Let `to`, the ledger of the share, count the excess that has no room here."""
        if self.debts.elsewhere:
            to.take_excess(self.debts, now)

    def take_excess(self, debts: Debts, now: float) -> None:
        """Count excess of reserved capacity here, or with all, if nothing is held."""
        started = self._started
        for key, (when, cost) in tuple(debts.elsewhere.items()):
            slice_ = started.slice_of(when)
            before, expires = started.costs.get(slice_, 0.0), started.expires(slice_)
            if not self.capacity:
                self.debts.elsewhere[key] = when, cost
            elif expires > now:
                self.debts.until = max(self.debts.until, expires)
                # From here on without a call, so that it is counted once.
                started.costs[slice_] = before + cost
                self._corrected += cost
            del debts.elsewhere[key]

    def _stayed_of(self, entry: BudgetEntry) -> float:
        """Which part of it is still here, of what was here when it was entered."""
        assert entry.place is not None
        stay, then = entry.place
        return stay.fraction / then

    def _coming_free(self, now: float) -> Iterator[tuple[float, float]]:
        started = heapq.merge(self._started.coming_free(), self.inherited.coming_free())
        starting = sorted((self._soonest_end(one, now), one.cost) for one in self._starting)
        return heapq.merge(started, starting) if starting else started

    def _soonest_end(self, entry: BudgetEntry, now: float) -> float:
        """Until when one that has not begun counts at least; callers that wait look again then."""
        return max(self._started.next_slice(now), entry.charged_at + self._started.life)
