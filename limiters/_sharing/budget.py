"""What an instance may spend of a limit: what is reserved for it, permits, and its share. By
dimension, as its user names costs. Not thread-safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from limiters._budgets.ledger import ledger_of
from limiters._budgets.purse import Parts, Purse
from limiters._budgets.several import AnyParts, AnyPurse, PartsOfBounds, PurseOfBounds, one_purse
from limiters._budgets.spending import Spending
from limiters._costs import AnyCost, is_covered
from limiters._instance_share import InstanceShare
from limiters._support.validation import ArgumentError
from limiters.leases._messages import partitions_of
from limiters.limits import Limits


class SharedBudget:
    """The reserved capacity stays when the instance takes part anew, with another share.

    `limits` are those that are shared, as this instance was made with them: they say which
    dimensions there are. What is in force is what the share knows.
    """

    def __init__(self, limits: Limits, reserved: AnyCost, freed: Callable[[], object]) -> None:
        self.limits = limits
        self.reserved = reserved
        self.reserved_ledgers = [
            ledger_of(bound, capacity, freed=freed)
            for bound, capacity in zip(limits.bounds, self._in_proportion(reserved), strict=True)
        ]
        """What was spent of what is reserved, by bound."""
        self._spent_before = (Spending(),) * len(limits.bounds)
        self.share: InstanceShare
        self.purse: AnyPurse
        self._allowed = limits
        self._allowed_for: tuple[object, AnyCost] | None = None

    def join(self, share: InstanceShare) -> None:
        """Spends what this share holds, from now on."""
        self.share = share
        share.reserve(self.reserved)
        self._purses = [
            Purse(ledger, one.permit, one.ledger)
            for ledger, one in zip(self.reserved_ledgers, share.bounds, strict=True)
        ]
        self.purse = one_purse(self.limits, self._purses)

    def leave(self, now: float) -> None:
        """Another share is going to be joined: what was spent on this one is kept."""
        self._spent_before = self.shared_spending(now)

    def reserve(self, reserved: AnyCost) -> None:
        """So much is reserved from now on."""
        self.reserved = reserved
        for ledger, one in zip(self.reserved_ledgers, self._in_proportion(reserved), strict=True):
            ledger.set_capacity(one)
        self.share.reserve(reserved)

    def _in_proportion(self, reserved: AnyCost) -> list[float]:
        """What is reserved of a dimension, for each of its bounds: shorter windows allow as much
        less of it as they allow of the whole."""
        outer: dict[str, float] = {}
        amounts = []
        for bound, one in zip(self.limits.bounds, self.limits.by_bound(reserved), strict=True):
            first = outer.setdefault(bound.dimension, bound.capacity)
            amounts.append(one * (bound.capacity / first))
        return amounts

    def follow_periods(self, now: float) -> None:
        """An operator may have changed the windows: those of what is reserved are as long."""
        for ledger, one in zip(self.reserved_ledgers, self.share.bounds, strict=True):
            period = one.terms.period / 1000
            if not one.terms.slots and ledger.period != period:
                ledger.set_period(period, now)  # type: ignore[attr-defined]  # a window has one

    # What there is.

    @property
    def most(self) -> AnyCost:
        """What could be had at most in one period: all that is shared, and what is reserved."""
        shared = [one.terms.capacity for one in self.share.bounds]
        both = zip(shared, self._in_proportion(self.reserved), strict=True)
        return self.limits.smallest(one + reserved for one, reserved in both)

    @property
    def allowed(self) -> Limits:
        """The same as limits, with the windows that are in force."""
        terms, reserved = self.share.terms, self.reserved
        if (terms.bounds, reserved) != self._allowed_for:
            self._allowed_for = terms.bounds, reserved
            self._allowed = self._allow()
        return self._allowed

    def _allow(self) -> Limits:
        shared = [one.terms.capacity for one in self.share.bounds]
        both = zip(shared, self._in_proportion(self.reserved), strict=True)
        capacities = [one + reserved for one, reserved in both]
        if "" in self.limits.dimensions:
            most, period = capacities[0], self.period
            return Limits.of(most, period) if most else self.limits
        periods = [one.terms.period / 1000 for one in self.share.bounds]
        try:
            return self.limits.with_bounds(list(zip(capacities, periods, strict=True)))
        except ArgumentError:  # somebody else has stored what no user can set
            return self.limits

    @property
    def period(self) -> float:
        """The seconds of the longest window; if there is none, how long a call may last."""
        windows = [one.terms.period for one in self.share.bounds if not one.terms.slots]
        return max(windows or [one.terms.period for one in self.share.bounds]) / 1000

    def shared(self, now: float) -> AnyCost:
        """What is held of what is shared, for one period."""
        self.share.settle(now)
        return self.limits.smallest(one.ledger.capacity for one in self.share.bounds)

    def there(self, now: float) -> AnyCost:
        """What is held of what is shared, with what is left of a permit."""
        self.share.settle(now)
        return self.limits.smallest(
            one.ledger.capacity + one.permit.available(now) for one in self.share.bounds
        )

    def burst(self, now: float) -> AnyCost:
        """What may go at once after a rest; of one partition, if there is nothing to spend yet."""
        self.share.settle(now)
        held = now < self.share.until
        factors = self.share.partitions_of_bounds()
        return self.limits.smallest(
            purse.burst(now) or one.burst(held, partition, now)
            for purse, one, partition in zip(self._purses, self.share.bounds, factors, strict=True)
        )

    def reserved_spending(self, now: float) -> tuple[Spending, ...]:
        """What was spent of what is reserved, by bound."""
        return tuple(ledger.spending(now) for ledger in self.reserved_ledgers)

    def shared_spending(self, now: float) -> tuple[Spending, ...]:
        """What was spent of what is shared, by bound, by this instance: also under earlier
        names."""
        both = zip(self._spent_before, self.share.bounds, strict=True)
        return tuple(before.plus(one.spending(now)) for before, one in both)

    def partitions(self, units: Sequence[int]) -> float:
        """How many partitions people see in so many units of each bound: in that of which it has
        the largest part."""
        terms = self.share.terms
        parts = (one / bound.units for one, bound in zip(units, terms.bounds, strict=True))
        return max(parts) * partitions_of(terms.capacity, terms.factor)

    # Spending it.

    @property
    def nothing(self) -> AnyParts:
        """Parts of no amount."""
        return self.purse.nothing if isinstance(self.purse, PurseOfBounds) else Parts()

    def lacks(self, cost: AnyCost, now: float) -> bool:
        """Whether less is held than that."""
        return not is_covered(self.purse.capacity(now), cost)

    def lacking(self, parts: AnyParts, cost: AnyCost) -> list[bool]:
        """Of which bounds these parts have less than a cost."""
        each = parts.bounds if isinstance(parts, PartsOfBounds) else (cast(Parts, parts),)
        pairs = zip(each, self.limits.by_bound(cost), strict=True)
        return [sum(one) < amount for one, amount in pairs]

    def unreserved(self, waiting: AnyCost, gathering: AnyCost, now: float) -> None:
        """Tells the share what waits beyond what is reserved, and what of it has to come together
        in one piece."""
        waits, gathers = self.limits.by_bound(waiting), list(self.limits.by_bound(gathering))
        capacities = self._in_proportion(self.reserved)
        rest = []
        for at, ledger in enumerate(self.reserved_ledgers):
            rest.append(max(0.0, waits[at] - max(0.0, capacities[at] - ledger.spent(now))))
            gathers[at] = max(0.0, gathers[at] - ledger.available(now, gathers[at]))
            if not rest[at]:
                gathers[at] = 0.0
        self.share.want(tuple(rest), tuple(gathers), now)
