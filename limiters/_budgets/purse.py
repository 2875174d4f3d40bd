"""The budgets of a SharedResource, spent together: reserved, a permit, a share. Pure.

What is reserved goes first: it is there in any case. A permit goes next, as it ends soon; what is
left of a share may be of use to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from limiters._budgets.ledger import BoundLedger
from limiters._budgets.permit import PermitBudget
from limiters._budgets.spend import Payment, Spend, SpendOfPayers, Tenure
from limiters._support.float_error import covers

GRAIN = 1e-4
"""The share of a period to which it is known when an amount will be there."""


class Parts(NamedTuple):
    """An amount, by the budget that pays for it."""

    reserved: float = 0.0
    permit: float = 0.0
    shared: float = 0.0

    @property
    def amount(self) -> float:
        """Return the sum of all parts."""
        return sum(self)

    def up_to(self, amount: float) -> Parts:
        """At most `amount` of it, in the order in which budgets pay.

        >>> Parts(5.0, 2.0, 10.0).up_to(8.0)
        Parts(reserved=5.0, permit=2.0, shared=1.0)
        """
        reserved = min(self.reserved, amount)
        permit = min(self.permit, amount - reserved)
        return Parts(reserved, permit, min(self.shared, amount - reserved - permit))

    def less(self, other: Parts) -> Parts:
        """Return what is left of it without `other`."""
        return Parts(*(max(0.0, mine - its) for mine, its in zip(self, other, strict=True)))

    def paying(self, cost: float) -> Parts:
        """Return who pays for `cost`, which this covers: the last budget that has something also
        pays for the error of a sum; but a lease or a permit may end before the batch starts, so
        only if what comes before does not cover it.

        >>> Parts(5.0, 0.0, 10.0).paying(5.00000001)
        Parts(reserved=5.00000001, permit=0.0, shared=0.0)
        """
        if covers(self.reserved, cost) or not (self.permit or self.shared):
            return Parts(reserved=cost)
        rest = cost - self.reserved
        if covers(self.permit, rest) or not self.shared:
            return Parts(self.reserved, rest)
        return Parts(self.reserved, self.permit, rest - self.permit)


class Purse:
    """The budgets as one. Not thread-safe.

    >>> from limiters._budgets.window import WindowLedger
    >>> purse = Purse(WindowLedger(100, 1.0), PermitBudget(), WindowLedger(1000, 1.0))
    >>> purse.available(now=0.0, at_least=500)
    Parts(reserved=100.0, permit=0.0, shared=400.0)
    """

    def __init__(self, reserved: BoundLedger, permit: PermitBudget, shared: BoundLedger) -> None:
        self.reserved = reserved
        self.permit = permit
        self.shared = shared

    def capacity(self, now: float) -> float:
        """Return what reserved and shared capacity are worth, for one period, and what is left of a
        permit."""
        return self.reserved.capacity + self.permit.available(now) + self.shared.capacity

    def burst(self, now: float) -> float:
        """Return what may go without a pause after a rest."""
        return self.reserved.burst(now) + self.shared.burst(now)

    def available(self, now: float, at_least: float = 0.0) -> Parts:
        """Return what may be charged now, to each of them."""
        reserved = self.reserved.available(now, at_least)
        self.reserved.pass_excess(self.shared, now)
        permit = self.permit.available(now)
        rest = max(0.0, at_least - reserved - permit)
        return Parts(reserved, permit, self.shared.available(now, rest))

    def hold(self, parts: Parts) -> None:
        """Sets amounts aside for charges to come."""
        self.reserved.hold(parts.reserved)
        self.permit.hold(parts.permit)
        self.shared.hold(parts.shared)

    def release(self, parts: Parts) -> None:
        """Gives back what was held and not charged."""
        self.reserved.release(parts.reserved)
        self.permit.release(parts.permit)
        self.shared.release(parts.shared)

    def charge(self, parts: Parts, now: float, tenure: Tenure) -> Spend:
        """Turns what is held into one that counts from now on."""
        charged: list[tuple[Spend, float]] = []
        if parts.shared:
            charged.append((self.shared.charge(parts.shared, now, tenure), parts.shared))
        if parts.permit:
            charged.append((self.permit.charge(parts.permit, now), parts.permit))
        if parts.reserved:
            charged.append((self.reserved.charge(parts.reserved, now), parts.reserved))
        return _one_spend(charged) if charged else self._last.charge(0.0, now)

    def payment(self, cost: float, now: float, owner: object = None) -> Payment:
        """`cost`, which is available, as begun now: to be entered without setting it aside."""
        parts = self.available(now, cost).paying(cost)
        paying: list[tuple[Payment, float]] = []
        if parts.shared:
            paying.append((self.shared.payment(parts.shared, now, owner), parts.shared))
        if parts.permit:
            paying.append((self.permit.payment(parts.permit, now, owner), parts.permit))
        if parts.reserved:
            paying.append((self.reserved.payment(parts.reserved, now, owner), parts.reserved))
        if not paying:
            return self._last.payment(0.0, now, owner)
        spend = _one_spend([(one.spend, amount) for one, amount in paying])
        return Payment.of((one for one, _ in paying), spend)

    @property
    def _last(self) -> BoundLedger:
        """Which pays if a batch costs something after all: one that keeps others back then."""
        return self.reserved if self.reserved.capacity > self.shared.capacity == 0 else self.shared

    def in_debt_until(self, now: float) -> float:
        """Until when batches that are to cost nothing here wait nevertheless; now, as a rule. A
        permit was granted since there was room, also if this instance sees none."""
        shared = now if self.permit.available(now) else self.shared.in_debt_until(now)
        return max(self.reserved.in_debt_until(now), shared)

    def ready_at(self, cost: float, now: float) -> float:
        """The earliest time at which `cost` may be available, as far as is known now."""
        cost -= self.permit.available(now)
        if cost <= 0:
            return now
        if not self.shared.capacity:
            return self.reserved.ready_at(cost, now)
        if not self.reserved.capacity:
            return self.shared.ready_at(cost, now)
        reserved, shared = self.reserved.outlook(now), self.shared.outlook(now)

        def there(at: float) -> bool:
            first = reserved(at, cost)
            return covers(first + shared(at, max(0.0, cost - first)), cost)

        if there(now):
            return now
        # Both only grow while nothing is spent, and after a period all has come that will. As a
        # rule it is soon: the step is doubled until it is too long.
        grain = self.shared.period * GRAIN
        early, step = now, grain
        while step < self.shared.period and not there(now + step):
            early, step = now + step, 2 * step
        late = now + min(step, self.shared.period)
        while late - early > grain:
            middle = (early + late) / 2
            early, late = (early, middle) if there(middle) else (middle, late)
        return late


def _one_spend(paid: Sequence[tuple[Spend, float]]) -> Spend:
    return paid[0][0] if len(paid) == 1 else SpendOfPayers(paid)
