"""What an instance holds of one bound of a limit, what it spent on that, and what it needs. Pure.

`InstanceShare` keeps what all bounds have in common: requests, the lease, the server's clock. Here
is what each bound has for itself. A rate is held in fractions, and what was spent moves along with
what changes hands; slots are held as a whole number, and only those without a call may be released.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence

from limiters._budgets.ledger import window_of
from limiters._budgets.permit import PermitBudget
from limiters._budgets.permit_corrections import Corrections, PermitCorrections, in_slices
from limiters._budgets.recent import Recent
from limiters._budgets.release import last_release, releasable
from limiters._budgets.shortage import Shortage
from limiters._budgets.slots import SlotLedger
from limiters._budgets.spending import Spending
from limiters._budgets.window import WindowLedger
from limiters._needs import SOON
from limiters._support.float_error import covers
from limiters.leases._messages import BoundReply, BoundTerms, Entries, Terms
from limiters.limits import Bound, BoundKind

PEAK_REQUESTS = 4
"""Over how many requests the peak of the calls that ran is taken."""

TRACE = 1e-6
"""The part of a limit that is needed, at least, of what calls cost that were estimated to cost
nothing: more than the error of sums, and nothing that others would miss."""

SHORTEST_MIX, LONGEST_MIX = 5.0, 60.0
"""Seconds of which it is known in which proportion bounds were spent: those of the longest window,
within these bounds."""


class BoundShare(ABC):
    """See the module. Not thread-safe."""

    ledger: WindowLedger | SlotLedger

    def __init__(self, terms: BoundTerms, bound: Bound) -> None:
        self.terms = terms
        self.bound = bound
        self.units = 0
        self.reply = BoundReply()
        """What the last answer said of it."""
        self.permit = PermitBudget(at_end=bound.at_end)
        self.corrections = PermitCorrections()
        self.shortage = Shortage()
        self.waiting = 0.0
        """The cost that waits to be spent."""
        self.missed = 0.0
        """What waited while nothing was held: it counts once, even if it no longer waits."""
        self.gathering = 0.0
        """What of it is needed in one piece."""
        self.asked_need = self.asked_gathering = 0.0
        """What was needed when it was last asked for."""
        self.asked_for = 0.0
        """The cost for which it last asked for a permit."""
        self.piece = 0.0
        """What a batch costs."""
        self.reserved = 0.0
        """What may be spent besides, of this instance alone."""
        self._counted = (0, 0.0)

    # What it is worth.

    @property
    def capacity(self) -> float:
        """That of the whole limit which is in force, as far as is known."""
        return self.terms.in_force or self.terms.capacity

    def worth(self, units: int) -> float:
        """What so many units are worth."""
        return units * self.capacity / self.terms.units

    def settle(self, held: bool, now: float) -> float:
        """What may be spent in a period, while the lease is `held`; the ledger follows."""
        worth = self.usable if held else 0.0
        self.ledger.set_capacity(worth)
        self.sample(now)
        return worth

    @property
    @abstractmethod
    def usable(self) -> float:
        """What may be spent in a period of what it holds."""

    @abstractmethod
    def burst(self, held: bool, partition: float, now: float) -> float:
        """What may be spent at once after a rest; of a `partition`, if nothing is known yet."""

    # What it spent, and what it needs.

    def spending(self, now: float) -> Spending:
        """What was spent on its share, and by permits."""
        return self.ledger.spending(now).plus(self.permit.spending())

    @abstractmethod
    def sample(self, now: float) -> None:
        """To be called whenever something may have begun or ended."""

    @abstractmethod
    def spent(self, now: float) -> float:
        """What it spent on its share in the last period: not what it inherited."""

    @abstractmethod
    def by_permit(self, now: float) -> float:
        """What permits paid for in the last period."""

    def want(self, waiting: float, gathering: float, now: float) -> None:
        """So much waits to be spent, of which `gathering` is needed in one piece."""
        self.waiting = waiting
        if not waiting:
            self.shortage.note(False, now)
        if not self.units:
            self.missed = max(self.missed, waiting)
        self.gathering = gathering

    def wanted(self) -> float:
        """What waits now, or waited when nothing was held."""
        return max(self.waiting, self.missed, self.gathering)

    @abstractmethod
    def need(self, now: float) -> float:
        """What was spent in the last period is likely to be wanted again in the next one, and what
        waits besides. If little is asked for at a time, more: what could have been spent without
        waiting."""

    def soon(self) -> float:
        """What it needs so that all that waits can go soon; of slots, no more than it needs."""
        return 0.0

    @abstractmethod
    def lately(self, now: float) -> float:
        """What was spent in the last while, which is the same for all bounds of a limit."""

    def mix(self, now: float) -> float:
        """What waits, and what was spent lately; of slots, what ran at peak."""
        return self.wanted() + self.lately(now)

    def look_back(self, interval: float, held: bool, partition: float, now: float) -> None:
        """A request is made, `interval` seconds after the last one."""
        self.shortage.requested(interval, now)

    def unasked(self, part: float, now: float) -> float:
        """This part of it, if calls that were estimated to cost nothing here did cost something;
        else 0. Only an instance that holds or is granted something learns the debts of others."""
        return 0.0

    def returned(self, now: float) -> int:
        """What the next request gives back."""
        return self.surplus(now)

    @abstractmethod
    def needs_share_for(self, cost: float) -> None:
        """It gathers this much, and may spend nothing before."""

    # What changes hands.

    def surplus(self, now: float) -> int:
        """What it may not keep."""
        return self.spare(max(0, self.units - self.reply.keep), now)

    @abstractmethod
    def spare(self, units: int, now: float) -> int:
        """As much of these units as may be given back: not what is about to begin, or runs and
        counts until its end."""

    @abstractmethod
    def is_held_by_calls(self, now: float) -> bool:
        """Whether a part of it can be given back only when calls have ended."""

    @abstractmethod
    def last_release(self, now: float) -> int:
        """What it gives back when it leaves."""

    @abstractmethod
    def part_with(self, released: int, now: float, *, leaving: bool) -> tuple[Entries, Entries]:
        """Gives up so many units: what was spent on them, by age and by stamp."""

    @abstractmethod
    def receive(self, reply: BoundReply, server_now: int, now: float) -> None:
        """Follows an answer."""

    @abstractmethod
    def follow(self, terms: BoundTerms, now: float) -> None:
        """The terms are others from now on."""

    @abstractmethod
    def forget_stamps(self) -> None:
        """Another server is in charge."""

    # What turned out to cost more or less than was reported.

    def correct(self, now: float) -> Corrections:
        """What the next request has to say of it, which reports the permit that was closed."""
        return self.corrections.compose(self.permit.uses, now, self.terms)

    # When it asks for a permit.

    @abstractmethod
    def lacks(self, cost: float, held: bool, now: float) -> bool:
        """Whether what it holds has no room for `cost` now."""


class RateShare(BoundShare):
    """Of a window of a rate."""

    ledger: WindowLedger

    def __init__(
        self, terms: BoundTerms, bound: Bound, lately: float, freed: Callable[[], object]
    ) -> None:
        super().__init__(terms, bound)
        self.ledger = window_of(bound, 0.0, shared=True, freed=freed)
        self._recent = Recent(self._settled_total, terms.period / 1000)
        self._corrected = Recent(self.ledger.settled, terms.period / 1000)
        self._lately = Recent(self.ledger.total, lately)
        self._batches = Recent(lambda: self.ledger.charges, lately)

    @property
    def usable(self) -> float:
        return self.worth(self.units)

    def burst(self, held: bool, partition: float, now: float) -> float:
        if self.settle(held, now):
            return self.ledger.burst(now)
        # Not more: an operation that waits for as much as this would otherwise wait forever.
        return (
            self.worth(self.reply.share) or min(partition, self.capacity)
        ) * self.ledger.pace.uneven_burst

    def sample(self, now: float) -> None:
        for one in (self._recent, self._corrected, self._lately, self._batches):
            one.sample(now)

    def _settled_total(self) -> float:
        return self.ledger.total() + self.ledger.settled()

    def lately(self, now: float) -> float:
        seconds = self._lately.seconds
        return self._lately.grown(now) + math.fsum(self.permit.recent(now, seconds))

    def sampled(self, now: float) -> float:
        """For how many seconds it is known what was spent lately."""
        return self._lately.since(now)

    def spent(self, now: float) -> float:
        """At its true cost, as far as that is known: else an instance whose calls cost less than
        was told would seem to need more than it uses. But what counts now is needed: calls that
        run count for what was told."""
        spent = max(0.0, self._recent.grown(now))
        if self._corrected.grown(now):
            spent = max(spent, self.ledger.spent(now) - self.ledger.inherited.total(now))
        return spent

    def by_permit(self, now: float) -> float:
        period = self.ledger.period
        paid = math.fsum(self.permit.recent(now, period))
        return max(0.0, paid + self.corrections.recently(now, period))

    def need(self, now: float) -> float:
        spent = self.spent(now) + self.by_permit(now)
        return max(self.wanted(), self.shortage.unspent(spent)) + spent

    def soon(self) -> float:
        """What it would need to spend in a second what waits."""
        return self.wanted() * max(1.0, self.ledger.period / SOON)

    def look_back(self, interval: float, held: bool, partition: float, now: float) -> None:
        super().look_back(interval, held, partition, now)
        count = self.ledger.charges
        before, at = self._counted
        total = self.ledger.charged()
        if count > before:
            self.piece = (total - at) / (count - before)
        elif self.shortage.since is not None and not self.gathering:
            # What waits needs no gathering: it costs less than batches before it may have cost.
            self.piece = min(self.piece, self.burst(held, partition, now))
        self._counted = count, total

    def even_out(self, now: float) -> None:
        """A batch costs what batches cost on average lately: where bounds are rounded to whole
        batches together, those of a moment would not fit together."""
        batches = self._batches.grown(now) + len(self.permit.recent(now, self._batches.seconds))
        if batches:
            self.piece = self.lately(now) / batches

    def likely(self, now: float) -> float:
        """Which part of their estimates batches have cost in the last period that permits paid
        for."""
        paid = math.fsum(self.permit.recent(now, self.ledger.period))
        return min(1.0, self.by_permit(now) / paid) if paid else 1.0

    def unasked(self, part: float, now: float) -> float:
        return part * self.capacity if self.ledger.debts.is_unasked(now) else 0.0

    def returned(self, now: float) -> int:
        """If it needs no more than a trace, all: so the answer brings the debts that others have
        now. More than a trace only if all that was spent fits into it: more is not believed."""
        surplus, trace = self.surplus(now), self.unasked(TRACE, now)
        if trace and self.asked_need <= trace:
            spent = self.ledger.spent(now)  # first: what has begun is pledged no longer
            fits = self.usable <= 2 * trace or covers(self.usable, spent)
            if fits and not self.ledger.pledged:
                return self.units
        return surplus

    def needs_share_for(self, cost: float) -> None:
        self.piece = self.piece or cost  # also when it does not ask for a moment

    def spare(self, units: int, now: float) -> int:
        return releasable(self.ledger, units, self.units, self.usable, now)

    def is_held_by_calls(self, now: float) -> bool:
        if not (self.units and self.bound.at_end):
            return False
        self.ledger.spent(now)  # first: what has ended is pledged no longer
        return self.ledger.starting > 0

    def last_release(self, now: float) -> int:
        return last_release(self.ledger, self.units, self.usable, now)

    def part_with(self, released: int, now: float, *, leaving: bool) -> tuple[Entries, Entries]:
        if not released:
            return (), ()
        part = 1.0 if leaving else released / self.units
        own, stamped = self.ledger.split(part, now)
        self.ledger.pace.changed_hands(part, now)
        self.units -= released
        return in_slices(own, now, self.terms.period), stamped

    def receive(self, reply: BoundReply, server_now: int, now: float) -> None:
        for stamp, cost in reply.given:
            age = server_now - stamp
            self.ledger.receive(stamp, cost, now + (self.terms.counts - age) / 1000)
        costs, worth = [cost for _, cost in reply.given], self.worth(reply.units)
        # Else room comes back as it always does.
        if worth and math.fsum(costs) > self.ledger.pace.even_burst * worth:
            self.ledger.pace.changed_hands(max(costs) / worth, now)
        self.units, self.reply = reply.units, reply

    def follow(self, terms: BoundTerms, now: float) -> None:
        if terms.period != self.terms.period:
            self.ledger.set_period(terms.period / 1000, now)
            self._recent.seconds = self._corrected.seconds = terms.period / 1000
        self.ledger.part_of(terms.capacity)
        self.terms = terms

    def forget_stamps(self) -> None:
        self.ledger.inherited.forget_stamps()

    def correct(self, now: float) -> Corrections:
        self.ledger.spent(now)  # first: it notes what was settled by now
        self.corrections.add_debts(self.ledger.debts.elsewhere.values())
        self.ledger.debts.elsewhere = {}
        return super().correct(now)

    def lacks(self, cost: float, held: bool, now: float) -> bool:
        worth = self.usable if held else 0.0
        spent = self.ledger.spent(now)  # first: what has begun is pledged no longer
        return not covers(worth - self.ledger.pledged - spent + self.ledger.starting, cost)


class SlotShare(BoundShare):
    """Of a number of calls in flight."""

    ledger: SlotLedger

    def __init__(
        self, terms: BoundTerms, bound: Bound, lately: float, freed: Callable[[], object]
    ) -> None:
        super().__init__(terms, bound)
        self.ledger = SlotLedger(0, strict=bound.strict, freed=freed)
        self._peaks: deque[float] = deque([0.0], maxlen=PEAK_REQUESTS)
        self._sampled_at, self._holds, self._held_for = 0.0, False, 0.0
        self._held_lately = Recent(lambda: self._held_for, lately)

    @property
    def usable(self) -> float:
        """It begins no call beyond what it may keep, so that the others become free."""
        return float(min(self.units, self.reply.keep))

    def burst(self, held: bool, partition: float, now: float) -> float:
        return self.settle(held, now) or float(max(1, self.reply.share))

    def sample(self, now: float) -> None:
        taken = self.ledger.spent(now)
        self._peaks[-1] = max(self._peaks[-1], taken)
        self._held_for += (now - self._sampled_at) * self._holds
        self._sampled_at, self._holds = now, self.units > 0
        self._held_lately.sample(now)

    def spent(self, now: float) -> float:
        self.sample(now)
        return max(self._peaks)

    def by_permit(self, now: float) -> float:
        return 0.0

    def lately(self, now: float) -> float:
        return 0.0

    def mix(self, now: float) -> float:
        """The calls that ran at peak, times the part of the time in which it held slots: between
        its turns an instance has none, and spends nothing of rates either."""
        peak, seconds = self.spent(now), self._held_lately.since(now)
        return peak * min(1.0, self._held_lately.grown(now) / seconds) if seconds > 0 else peak

    def want(self, waiting: float, gathering: float, now: float) -> None:
        super().want(waiting, gathering, now)
        self.piece = math.ceil(gathering) or self.piece

    def need(self, now: float) -> float:
        """What ran at peak; and what waits for slots, as far as slots are what it waits for: at
        least those of a batch."""
        running = self.spent(now)
        if not running:
            return math.ceil(self.wanted())
        unspent = max(1.0, self.piece, math.ceil(self.shortage.unspent(running)))
        waits = self.shortage.since is not None or self.shortage.unspent(running) > 0
        return running + (min(self.wanted(), unspent) if waits else 0.0)

    def look_back(self, interval: float, held: bool, partition: float, now: float) -> None:
        super().look_back(interval, held, partition, now)
        self._peaks.append(self.ledger.spent(now))

    def spare(self, units: int, now: float) -> int:
        return min(units, self._idle(now))

    def is_held_by_calls(self, now: float) -> bool:
        return self._idle(now) < self.units

    def last_release(self, now: float) -> int:
        return self._idle(now)

    def _idle(self, now: float) -> int:
        return max(0, self.units - math.ceil(self.ledger.pledged))

    def needs_share_for(self, cost: float) -> None:
        pass  # no permit is for slots

    def part_with(self, released: int, now: float, *, leaving: bool) -> tuple[Entries, Entries]:
        self.units -= released
        return (), ()

    def receive(self, reply: BoundReply, server_now: int, now: float) -> None:
        self.units, self.reply = reply.units, reply

    def follow(self, terms: BoundTerms, now: float) -> None:
        self.terms = terms

    def forget_stamps(self) -> None:
        pass

    def lacks(self, cost: float, held: bool, now: float) -> bool:
        return not covers((self.usable if held else 0.0) - self.ledger.pledged, cost)


def shares_of(
    terms: Terms, bounds: Sequence[Bound], freed: Callable[[], object]
) -> tuple[BoundShare, ...]:
    """One for each bound of a limit. `freed` is called after a slot was freed, or a part of what a
    call was charged, by the thread that did it."""
    windows = [one.period / 1000 for one in terms.bounds if not one.slots]
    lately = min(max([SHORTEST_MIX, *windows]), LONGEST_MIX)
    return tuple(
        SlotShare(one, bound, lately, freed)
        if bound.kind is BoundKind.SLOTS
        else RateShare(one, bound, lately, freed)
        for one, bound in zip(terms.bounds, bounds, strict=True)
    )
