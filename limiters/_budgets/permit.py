"""A permit, as its holder uses it: the right to start a batch of a given cost, soon. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from limiters._budgets.settlements import Settlements
from limiters._budgets.spend import OPEN, BudgetEntry, CallEnds, CallEntry, Payment, Tenure, nothing
from limiters._budgets.spending import Spending
from limiters._support.float_error import FLOAT_ERROR, covers

UNKNOWN = -1
"""The age, in a report, of what has no time stamp yet."""


class PermitUse(NamedTuple):
    """A batch that a permit paid for, as it was reported."""

    entry: BudgetEntry
    age: int
    """In milliseconds; UNKNOWN for what may still start, or runs and counts from its end."""
    charged: float
    """The part of its cost that was reported: no more than it was charged."""
    excess: float
    """The cost beyond that, as far as that was known and its age is."""
    is_final: bool
    """Whether what it costs, and from when on it counts, changes no more."""

    @property
    def correction(self) -> float:
        """Return the difference of the cost that was reported to the charge."""
        return self.charged + self.excess - self.entry.cost


class PermitBudget:
    """The rest of the last permit, and the batches that it paid for. It has the same methods as a
    WindowLedger, and nothing to give when there is no permit. Not thread-safe.

    >>> budget = PermitBudget()
    >>> budget.open(7, 10.0, until=5.0)
    >>> budget.available(now=4.0), budget.available(now=5.0)
    (10.0, 0.0)
    """

    def __init__(self, *, at_end: bool = False) -> None:
        """`at_end`: whether what it pays for counts from the end of a call."""
        self._settlements = Settlements(nothing)
        settled = self._settlements.report
        self._new_entry: Callable[[float, float, Tenure], BudgetEntry] = (
            partial(CallEntry, settled=settled, ends=CallEnds())
            if at_end
            else partial(BudgetEntry, settled=settled)
        )
        self.number = 0
        self._left = 0.0
        self._held = 0.0
        self._tenure = Tenure(-math.inf)
        self._spends: list[BudgetEntry] = []
        self.uses: list[PermitUse] = []
        """The uses that the last report is about."""
        self._recent: list[tuple[float, float]] = []
        self._longest = 0.0
        self._reported = 0.0
        """The cost that permits have paid for, until the last report."""

    @property
    def until(self) -> float:
        """Until when it may be used, by this instance's clock."""
        return self._tenure.until

    def open(self, number: int, cost: float, until: float) -> None:
        """A new permit was granted."""
        self.number, self._left, self._held = number, cost, 0.0
        self._tenure = Tenure(until)
        self._spends = []

    def is_open(self, now: float) -> bool:
        """Whether something of it can still be used, or is about to start."""
        if now >= self._tenure.until:
            return False
        return self._left > 0 or any(one.started_at is None for one in self._spends)

    def available(self, now: float, at_least: float = 0.0) -> float:
        """Return what may be charged now."""
        return max(0.0, self._left - self._held) if now < self._tenure.until else 0.0

    def hold(self, amount: float) -> None:
        """Sets `amount` aside for charges to come."""
        self._held += amount

    def release(self, amount: float) -> None:
        """Gives back what was held and not charged."""
        self._held = max(0.0, self._held - amount)

    def charge(self, cost: float, now: float) -> BudgetEntry:
        """Turns what is held into one that may start while the permit is valid; never, if it was
        closed since."""
        self._held = max(0.0, self._held - cost)
        if not covers(self._left, cost):
            return self._new_entry(cost, now, Tenure(-math.inf))
        self._left -= cost
        if self._left <= cost * FLOAT_ERROR:
            self._left = 0.0
        entry = self._new_entry(cost, now, self._tenure)
        self._spends.append(entry)
        return entry

    def payment(self, cost: float, now: float, owner: object = None) -> Payment:
        """`cost` as begun now, to be entered without setting it aside before."""
        entry = self._new_entry(cost, now, self._tenure)
        entry.started(now)
        return Payment.by(self, entry)

    def enter(self, entry: BudgetEntry) -> None:
        """Counts it as begun now: by one step."""
        self._left = max(0.0, self._left - entry.cost)
        self._spends.append(entry)

    def withdraw(self, entry: BudgetEntry, now: float) -> None:
        """Counts nothing of it any more, whether it was entered or not: its call is not made."""
        if entry in self._spends:
            self._spends.remove(entry)
            if entry.tenure is self._tenure:
                self._left += entry.cost
        elif any(entry is one.entry for one in self.uses):  # it was reported meanwhile
            entry.settle(0)
            entry.ended(now)

    def close(self, now: float) -> tuple[int, tuple[tuple[int, float], ...]]:
        """Ends the permit: its number, and (age in milliseconds, cost) of what it was used for; an
        age of UNKNOWN for what has no time stamp yet. What a call costs is reported as far as it
        is known, but no more than was charged. Nothing if it was reported before."""
        number, spends = self.number, self._spends
        self.number, self._spends, self._left, self._held = 0, [], 0.0, 0.0
        self._tenure = Tenure(-math.inf)  # of what was charged, each keeps its own
        self.uses = []
        for one in spends:
            if not one.cost:
                continue
            state, began = one.state, one.stamp  # first: it may end while it is reported
            counts = one.counts
            age = UNKNOWN if began is None else max(0, math.floor((now - began) * 1000))
            excess = 0.0 if began is None else max(0.0, counts - one.cost)
            is_final = began is not None and state is not OPEN
            self.uses.append(PermitUse(one, age, min(one.cost, counts), excess, is_final))
            self._recent.append((now if began is None else began, one.cost))
            self._reported += one.cost
        return number, tuple((one.age, one.charged) for one in self.uses)

    def spending(self) -> Spending:
        """Return what permits have paid for, of callbacks that have begun, and what settlements
        have changed of it."""
        seen = tuple(self._settlements.reported)
        for entry in seen:
            entry.reported = False  # first: what is settled from here on is reported again
            if entry.state is not OPEN and not entry.accounted:
                self._settlements.account(entry, entry.counts)
        self._settlements.dealt_with(seen)
        begun = math.fsum(one.cost for one in self._spends if one.started_at is not None)
        return Spending(
            self._reported + begun, self._settlements.refunded, self._settlements.excess
        )

    def recent(self, now: float, seconds: float) -> list[float]:
        """Return what each batch was charged that permits paid for in the last so many seconds, as
        far as it was reported."""
        self._longest = max(self._longest, seconds)
        self._recent = [one for one in self._recent if one[0] > now - self._longest]
        return [cost for at, cost in self._recent if at > now - seconds]
