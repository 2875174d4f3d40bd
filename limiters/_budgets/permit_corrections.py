"""Actual costs of calls that permits paid for, if they are known after the use was reported.

What a permit paid for counts in the pool's ledger, where only the coordinator can correct it. The
next request that is sent in any case says what is to be corrected:

* an excess is a debt: (when, cost). It is sent until it is answered;
* a refund is taken from the entry that was reported. Its time stamp there is known as soon as the
  report is answered. If the report, or the server that granted the permit, is lost, no refund can
  be right, and it is dropped.

Pure. docs/exactness.md has the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from limiters._budgets.permit import UNKNOWN, PermitUse
from limiters._budgets.spend import OPEN
from limiters.leases._format import MAX_ENTRIES, MAX_PERMIT_MS
from limiters.leases._ledger import slice_end
from limiters.leases._messages import BoundReply, BoundTerms, Entries

HISTORY_SLICES = 200
"""Ages of spending are sent in slices of a period, rounded to the later end."""

WORTH_ASKING = 0.5
"""An instance that waits for a permit asks again when it can give back so much of what it asked
for: it asks for the permit, the refund only travels along."""


class Charge(NamedTuple):
    """Where what a permit was charged is: its time stamp in the pool's ledger, the share of the
    pool that had stayed when it was granted, and in which wave."""

    at: int
    stayed: float
    wave: int


class Corrections(NamedTuple):
    """The corrections of one request, as `BoundRequest` has them."""

    debts: Entries = ()
    refunds: Entries = ()
    moved: Entries = ()
    wave: int = 0


class ReportedUse:
    """A use of a permit that may be corrected."""

    __slots__ = ("charge", "counted", "use")

    def __init__(self, use: PermitUse, charge: Charge | None) -> None:
        self.use = use
        self.charge = charge
        """None: it cannot be refunded."""
        self.counted = use.charged + use.excess
        """The cost that the coordinator counts of it, debts included."""


class PermitCorrections:
    """The corrections of one bound. Not thread-safe."""

    def __init__(self) -> None:
        self._open: Charge | None = None
        """That of the last permit."""
        self._sent: list[ReportedUse] = []
        """The uses that the request which is under way reports."""
        self._sent_debts: list[tuple[float, float]] = []
        self._reported: list[ReportedUse] = []
        self._debts: list[tuple[float, float]] = []
        """(when, cost) of debts that have to be sent."""
        self._corrected: list[tuple[float, float]] = []
        """(when, by how much) the cost of uses turned out to be another one than was charged."""

    def granted(self, reply: BoundReply) -> None:
        """A permit was granted."""
        charge = Charge(reply.permit_at, reply.permit_stayed, reply.permit_wave)
        self._open = charge if charge.stayed > 0 else None

    def add_debts(self, debts: Iterable[tuple[float, float]]) -> None:
        """(when, cost) that is in no ledger."""
        self._debts += debts

    def compose(self, uses: Sequence[PermitUse], now: float, terms: BoundTerms) -> Corrections:
        """Return the corrections of a request that reports these uses."""
        self._debts += [(now - use.age / 1000, use.excess) for use in uses if use.excess]
        corrected = (use for use in uses if use.correction)
        self._corrected += [(now - max(0, use.age) / 1000, use.correction) for use in corrected]
        self._sent = [ReportedUse(use, self._open) for use in uses if not use.is_final]
        self._open = None
        refunds: dict[int, float] = {}
        moved: list[tuple[float, float]] = []
        ready = self._ready(now, terms)
        wave = max((charge.wave for _, charge in ready), default=0)
        for one, charge in ready:
            if charge.wave == wave:  # of an earlier one nothing is left
                self._refund(one, charge, refunds, moved)
        counting = [one for one in self._debts if now - one[0] < terms.counts / 1000]
        self._sent_debts = latest(counting, max(terms.capacity, terms.in_force))
        self._debts = []
        return Corrections(
            in_slices(self._sent_debts, now, terms.period),
            tuple(sorted(refunds.items()))[-MAX_ENTRIES:],
            in_slices(moved, now, terms.period),
            wave,
        )

    def _ready(self, now: float, terms: BoundTerms) -> list[tuple[ReportedUse, Charge]]:
        """Return the uses that can be refunded now; keep those that still run or may cost more."""
        kept: list[ReportedUse] = []
        ready: list[tuple[ReportedUse, Charge]] = []
        for one in self._reported:
            entry = one.use.entry
            if entry.stamp is None:
                if now - entry.charged_at < (terms.lasting + MAX_PERMIT_MS) / 1000:
                    kept.append(one)
            elif now - entry.stamp < terms.counts / 1000:
                self._note_debt(one, entry.stamp, now)
                if entry.state is OPEN:
                    kept.append(one)
                elif one.charge is not None and _refund_of(one) > 0:
                    ready.append((one, one.charge))
        self._reported = kept
        return ready

    def _note_debt(self, one: ReportedUse, stamp: float, now: float) -> None:
        more = one.use.entry.counts - one.counted
        if more > 0:
            self._debts.append((stamp, more))
            self._corrected.append((now, more))
            one.counted += more

    def _refund(
        self,
        one: ReportedUse,
        charge: Charge,
        refunds: dict[int, float],
        moved: list[tuple[float, float]],
    ) -> None:
        """Add the refund of one use. Its charge is divided by the part that had stayed then: so the
        coordinator needs no more than what has stayed by now."""
        entry, charged = one.use.entry, one.use.charged
        back = _refund_of(one)
        refunds[charge.at] = refunds.get(charge.at, 0.0) + back / charge.stayed
        if one.use.age == UNKNOWN:
            assert entry.stamp is not None
            moved.append((entry.stamp, min(entry.counts, charged) / charge.stayed))
        self._corrected.append((entry.stamp or 0.0, entry.counts - one.counted))

    def answered(self, heard: int, terms: BoundTerms, *, same_server: bool) -> None:
        """The request under way was answered; the coordinator served it first at `heard`."""
        for one in self._sent:
            charge, age = one.charge, one.use.age
            if charge is not None and age != UNKNOWN:
                at = min(charge.at, slice_end(heard - age, terms.period))
                one.charge = charge._replace(at=at)
        self._reported += self._sent
        self._sent, self._sent_debts = [], []
        if not same_server:
            self._forget_charges()

    def ended(self) -> None:
        """The request under way will not be answered: its debts are sent again, and the fate of its
        report is not known."""
        for one in self._sent:
            one.charge = None
        self._reported += self._sent
        self._debts += self._sent_debts
        self._sent, self._sent_debts = [], []

    def _forget_charges(self) -> None:
        self._open = None
        for one in self._reported:
            one.charge = None

    def refundable(self) -> float:
        """How much could be given back by now."""
        return math.fsum(
            _refund_of(one)
            for one in self._reported
            if one.charge is not None
            and one.use.entry.state is not OPEN
            and one.use.entry.stamp is not None
        )

    def recently(self, now: float, seconds: float) -> float:
        """Return how much more uses of that time have cost than was charged; less than zero if they
        cost less."""
        self._corrected = [one for one in self._corrected if one[0] > now - seconds]
        return math.fsum(change for _, change in self._corrected)


def _refund_of(one: ReportedUse) -> float:
    """Return how much the pool's ledger has too much of it, at that place."""
    if one.use.age == UNKNOWN:
        return one.use.charged
    return min(one.use.charged, max(0.0, one.counted - one.use.entry.counts))


def latest(debts: Iterable[tuple[float, float]], most: float) -> list[tuple[float, float]]:
    """The latest of (when, cost), up to a sum of `most`. That much keeps a window full for as long
    as all of them would; a coordinator believes no more, and would take a part of each.

    >>> latest([(1.0, 80.0), (3.0, 60.0), (2.0, 60.0)], 100.0)
    [(3.0, 60.0), (2.0, 40.0)]
    """
    found: list[tuple[float, float]] = []
    for at, cost in sorted(debts, reverse=True):
        if most <= 0:
            break
        found.append((at, min(cost, most)))
        most -= cost
    return found


def in_slices(
    entries: Iterable[tuple[float, float]], now: float, period: int
) -> tuple[tuple[int, float], ...]:
    """(when, cost) as (age in milliseconds, cost), never older than it was."""
    width = max(1, period // HISTORY_SLICES)
    ages: dict[int, float] = {}
    for at, cost in entries:
        if cost > 0:
            age = max(0, math.floor((now - at) * 1000 / width) * width)
            ages[age] = ages.get(age, 0.0) + cost
    return tuple(sorted(ages.items()))
