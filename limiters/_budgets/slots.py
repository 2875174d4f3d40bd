"""The ledger of calls in flight: how many more may begin now. Pure.

A slot is taken from the charge until its call has ended. How many are taken is counted from the
calls themselves, each time: there is no counter that an interrupt could leave wrong.

It has the methods of a WindowLedger. Slots have no past: nothing of them is handed over but the
slots themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from limiters._budgets.debts import Debts, TakesExcess
from limiters._budgets.spend import BudgetEntry, CallEnds, CallEntry, Payment, Tenure, nothing
from limiters._budgets.spending import Spending
from limiters._support.float_error import ALL_BUT_ERROR

LOOK_AGAIN = 0.25
"""Seconds after which it is worth asking again for a slot. `freed` reports each that ends: this is
for what no call reports, such as a claimant that has gone."""


class SlotLedger:
    """Not thread-safe, but for the ends of its calls.

    >>> ledger = SlotLedger(2)
    >>> ledger.available(now=0.0), ledger.ready_at(1, now=0.0)
    (2.0, 0.0)
    >>> ledger.hold(2)
    >>> first, second = ledger.charge(1, now=0.0), ledger.charge(1, now=0.0)
    >>> first.ended(5.0)
    >>> ledger.available(now=5.0)
    1.0
    """

    def __init__(
        self, capacity: float, *, strict: bool = True, freed: Callable[[], object] = nothing
    ) -> None:
        """`strict`: an abandoned call keeps its slot until it returns. `freed`: called after a slot
        was freed, by the thread that did it."""
        self.capacity = capacity
        self.period = LOOK_AGAIN
        self.charges = 0
        """How many batches have taken slots."""
        self._lax = not strict
        self._freed = freed
        self._held = 0.0
        self._calls: dict[BudgetEntry, float] = {}
        self._ends = CallEnds()
        self._total = 0.0

    def burst(self, now: float) -> float:
        """Return what may go without a pause after a rest: all."""
        return self.capacity

    def available(self, now: float, at_least: float = 0.0) -> float:
        """Whole slots that may be taken now."""
        return max(0.0, math.floor(self.capacity) - self._held - self.spent(now))

    def outlook(self, now: float) -> Callable[[float, float], float]:
        """`available` for any time from `now` on, as far as is known: it is not known when a call
        ends."""
        there = self.available(now)
        return lambda at, at_least: there

    def hold(self, amount: float) -> None:
        """Sets `amount` aside for charges to come."""
        self._held += amount

    def release(self, amount: float) -> None:
        """Gives back what was held and not charged."""
        self._held -= amount

    def charge(self, cost: float, now: float, tenure: Tenure | None = None) -> BudgetEntry:
        """Turns `cost` of what is held into slots that are taken."""
        self._held -= cost
        entry = self._new_entry(cost, now, tenure)
        self.enter(entry)
        return entry

    def _new_entry(self, cost: float, now: float, tenure: Tenure | None) -> CallEntry:
        return CallEntry(cost, now, tenure, ends=self._ends, freed=self._freed, lax=self._lax)

    def payment(self, cost: float, now: float, owner: object = None) -> Payment:
        """`cost` as begun now, to be entered without setting it aside before. Its slots are free
        again when `owner` exists no more, at the latest."""
        entry = self._new_entry(cost, now, None)
        if owner is not None:
            entry.owned_by(owner)
        entry.started(now)
        return Payment.by(self, entry)

    def enter(self, entry: BudgetEntry) -> None:
        """Its slots are taken from now on: by one step."""
        self.charges += 1
        self._calls[entry] = entry.cost

    def withdraw(self, entry: BudgetEntry, now: float) -> None:
        """Its slots are free: its call is not made."""
        entry.cancel()

    def ready_at(self, cost: float, now: float) -> float:
        """When it is worth asking again for `cost`."""
        return now if self.available(now) >= cost * ALL_BUT_ERROR else now + LOOK_AGAIN

    def in_debt_until(self, now: float) -> float:
        """Now: a call never takes more slots than it was to take."""
        return now

    def pass_excess(self, to: TakesExcess, now: float) -> None:
        """Nothing: a call never takes more slots than it was to take."""

    def take_excess(self, debts: Debts, now: float) -> None:
        """Nothing: a call never takes more slots than it was to take."""

    def set_capacity(self, capacity: float) -> None:
        """Allow so many calls from now on."""
        self.capacity = capacity

    def spent(self, now: float) -> float:
        """How many slots are taken."""
        for one in self._ends.each():
            slots = self._calls.pop(one, 0.0)
            self._total += slots if one.cost else 0.0
        return sum(self._calls.values())

    def total(self) -> float:
        """How many slots calls have taken that have begun, since this ledger was made."""
        self.spent(0.0)
        return self._total + self.running

    def spending(self, now: float) -> Spending:
        """Return what has begun; slots are not settled."""
        return Spending(self.total())

    def charged(self) -> float:
        """How many slots were taken, since this ledger was made, by what was not cancelled."""
        return self._total + self.spent(0.0)

    @property
    def running(self) -> float:
        """The slots of calls that have begun."""
        return sum(slots for one, slots in self._calls.items() if one.started_at is not None)

    @property
    def starting(self) -> float:
        """How many are taken: none of them may be released."""
        return self.spent(0.0)

    @property
    def pledged(self) -> float:
        """The slots that are set aside or taken."""
        return self._held + self.starting
