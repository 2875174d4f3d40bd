"""The ledger of a rate that its server counts from the end of a call. Pure.

An entry counts in full while its call runs, however long that takes, and for a period after its
end. So it is among what may not be released as long as the call runs: its time stamp, the end, is
not known yet.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from limiters._budgets.spend import BudgetEntry, CallEnds, CallEntry, Payment
from limiters._budgets.window import WindowLedger


class EndWindowLedger(WindowLedger):
    """A ledger of costs that count from the ends of their calls. Not thread-safe.

    >>> ledger = EndWindowLedger(capacity=10, period=1.0)
    >>> ledger.hold(10)
    >>> call = ledger.charge(10, now=0.0)
    >>> call.started(0.0)
    True
    >>> ledger.available(now=60.0, at_least=10)
    0.0
    >>> call.ended(60.0)
    >>> ledger.available(now=61.1, at_least=10)
    10.0
    """

    def __init__(self, capacity: float, period: float, **options: Any) -> None:
        """`options` are those of a WindowLedger."""
        super().__init__(capacity, period, **options)
        self._ends = CallEnds()
        self._new_entry = partial(CallEntry, ends=self._ends)

    def payment(self, cost: float, now: float, owner: object = None) -> Payment:
        """`cost` as begun now, to be entered without setting it aside before. It ends with `owner`
        at the latest."""
        entry = CallEntry(cost, now, None, self._settled, ends=self._ends)
        entry.paced = 0.0
        if owner is not None:
            entry.owned_by(owner)
        entry.started(now)
        return Payment.by(self, entry)

    def withdraw(self, entry: BudgetEntry, now: float) -> None:
        """Counts nothing of it any more, whether it was entered or not: its call is not made."""
        entry.cancel()
        self.pace.correct(entry, 0.0, 1.0, now)

    def spent(self, now: float) -> float:
        """Return what counts now: what runs, what ended in the last period, and what is about to
        begin."""
        for one in self._ends.each():
            if one.stamp is None:  # its owner was lost, when is not known
                one.stamp = now
        return super().spent(now)

    def in_debt_until(self, now: float) -> float:
        """Until when batches that are to cost nothing here wait nevertheless."""
        if self._to_settle:
            self._note_settlements(now)  # first: calls that run may have cost something by now
        for one in self._starting:
            if one.cost and not one.estimated:
                self.debts.note(one, self._soonest_end(one, now))
        return super().in_debt_until(now)

    def total(self) -> float:
        """Return what has begun, since this ledger was made, as estimated."""
        return super().total() + self.running

    @property
    def running(self) -> float:
        """Return what has begun and not ended, as estimated."""
        begun = (one for one in self._starting if one.started_at is not None and one.stamp is None)
        return math.fsum(one.estimated for one in begun)

    def charged(self) -> float:
        """Return what was charged, since this ledger was made, and not cancelled, as estimated."""
        return super().total() + math.fsum(one.estimated for one in self._starting)

    def _soonest_end(self, entry: BudgetEntry, now: float) -> float:
        return now + self._started.life
