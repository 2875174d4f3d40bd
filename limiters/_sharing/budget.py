"""The budget of an instance: its reserved capacity, its permits and its share. Costs are by
dimension, as users give them. Not thread-safe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from limiters._budgets.ledger import ledger_of
from limiters._budgets.purse import Parts, Purse
from limiters._budgets.several import AnyParts, AnyPurse, PartsOfBounds, PurseOfBounds, one_purse
from limiters._budgets.spending import Spending
from limiters._costs import AnyCost, is_covered
from limiters._instance_share import InstanceShare
from limiters._needs import SOON
from limiters._support.validation import ArgumentError
from limiters.leases._messages import partitions_of
from limiters.limits import BoundKind, Limits


class SharedBudget:
    """The budget of one instance. Its reserved capacity stays when it takes part with another
    share.

    `limits` are the shared limits with which this instance was made. They determine the dimensions;
    the share has the terms in force.
    """

    def __init__(
        self, limits: Limits, reserved: AnyCost, freed: Callable[[], object], *, shared: bool = True
    ) -> None:
        """`shared`: there is more than the reserved capacity."""
        self.limits = limits
        self.reserved = reserved
        self.reserved_ledgers = [
            ledger_of(bound, capacity, reserved=shared, freed=freed)
            for bound, capacity in zip(limits.bounds, self._in_proportion(reserved), strict=True)
        ]
        """The ledgers of the reserved capacity, by bound."""
        self._spent_before = (Spending(),) * len(limits.bounds)
        self.share: InstanceShare
        self.purse: AnyPurse
        self._allowed = limits
        self._allowed_for: tuple[object, AnyCost] | None = None

    def join(self, share: InstanceShare) -> None:
        """Spend the capacity of this share from now on."""
        self.share = share
        share.reserve(self.reserved)
        self._purses = [
            Purse(ledger, one.permit, one.ledger)
            for ledger, one in zip(self.reserved_ledgers, share.bounds, strict=True)
        ]
        self.purse = one_purse(self.limits, self._purses)

    def leave(self, now: float) -> None:
        """Keep the sums of the share, before another one is joined."""
        self._spent_before = self.shared_spending(now)

    def reserve(self, reserved: AnyCost) -> None:
        """Set the reserved capacity."""
        self.reserved = reserved
        for ledger, one in zip(self.reserved_ledgers, self._in_proportion(reserved), strict=True):
            ledger.set_capacity(one)
        self.share.reserve(reserved)

    def _in_proportion(self, reserved: AnyCost) -> list[float]:
        """Return the reserved capacity for each bound. The windows of a dimension have it in
        proportion to their capacities."""
        outer: dict[str, float] = {}
        amounts = []
        for bound, one in zip(self.limits.bounds, self.limits.by_bound(reserved), strict=True):
            first = outer.setdefault(bound.dimension, bound.capacity)
            amounts.append(one * (bound.capacity / first))
        return amounts

    def follow_periods(self, now: float) -> None:
        """Give the windows of reserved capacity the lengths that are in force, which an operator
        may have changed."""
        for ledger, one in zip(self.reserved_ledgers, self.share.bounds, strict=True):
            period = one.terms.period / 1000
            if not one.terms.slots and ledger.period != period:
                ledger.set_period(period, now)  # type: ignore[attr-defined]  # a window has one

    # Capacity.

    @property
    def most(self) -> AnyCost:
        """The most that could be spent in one period: the whole shared capacity plus the
        reserved."""
        shared = [one.terms.capacity for one in self.share.bounds]
        both = zip(shared, self._in_proportion(self.reserved), strict=True)
        return self.limits.smallest(one + reserved for one, reserved in both)

    @property
    def allowed(self) -> Limits:
        """The limits with the windows in force and with the reserved capacity."""
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
        except ArgumentError:  # the stored limit is one that no user can set
            return self.limits

    @property
    def period(self) -> float:
        """The seconds of the longest window; if there is none, the longest time of a call."""
        windows = [one.terms.period for one in self.share.bounds if not one.terms.slots]
        return max(windows or [one.terms.period for one in self.share.bounds]) / 1000

    def shared(self, now: float) -> AnyCost:
        """Return the shared capacity that it holds, for one period."""
        self.share.settle(now)
        return self.limits.smallest(one.ledger.capacity for one in self.share.bounds)

    def there(self, now: float) -> AnyCost:
        """Return the shared capacity that it holds, plus the rest of a permit."""
        self.share.settle(now)
        return self.limits.smallest(
            one.ledger.capacity + one.permit.available(now) for one in self.share.bounds
        )

    def burst(self, now: float) -> AnyCost:
        """Return the largest cost that may be spent immediately after a rest; of one partition, if
        it holds nothing yet."""
        self.share.settle(now)
        held = now < self.share.until
        factors = self.share.partitions_of_bounds()
        return self.limits.smallest(
            purse.burst(now) or one.burst(held, partition, now)
            for purse, one, partition in zip(self._purses, self.share.bounds, factors, strict=True)
        )

    def reserved_spending(self, now: float) -> tuple[Spending, ...]:
        """Return the spending of reserved capacity, by bound."""
        return tuple(ledger.spending(now) for ledger in self.reserved_ledgers)

    def shared_spending(self, now: float) -> tuple[Spending, ...]:
        """Return this instance's spending of shared capacity by bound, including that of its
        earlier shares."""
        both = zip(self._spent_before, self.share.bounds, strict=True)
        return tuple(before.plus(one.spending(now)) for before, one in both)

    def partitions(self, units: Sequence[int]) -> float:
        """Return how many partitions so many units of each bound are shown as: those of the bound
        of which they are the largest part."""
        terms = self.share.terms
        parts = (one / bound.units for one, bound in zip(units, terms.bounds, strict=True))
        return max(parts) * partitions_of(terms.capacity, terms.factor)

    # Spending.

    @property
    def nothing(self) -> AnyParts:
        """Parts with amounts of zero."""
        return self.purse.nothing if isinstance(self.purse, PurseOfBounds) else Parts()

    def lacks(self, cost: AnyCost, now: float) -> bool:
        """Whether it holds less than `cost`."""
        return not is_covered(self.purse.capacity(now), cost)

    def lacking(self, parts: AnyParts, cost: AnyCost) -> list[bool]:
        """Return for each bound whether `parts` have less than `cost`."""
        each = parts.bounds if isinstance(parts, PartsOfBounds) else (cast(Parts, parts),)
        pairs = zip(each, self.limits.by_bound(cost), strict=True)
        return [sum(one) < amount for one, amount in pairs]

    def unreserved(self, waiting: AnyCost, gathering: AnyCost, now: float) -> None:
        """Set the demand of the share: the waiting cost minus the reserved capacity, and the part
        of it that is needed in one piece."""
        waits, gathers = self.limits.by_bound(waiting), list(self.limits.by_bound(gathering))
        soon = self._reserved_soon(now)
        rest = []
        for at, ledger in enumerate(self.reserved_ledgers):
            rest.append(max(0.0, waits[at] - soon[at]))
            gathers[at] = max(0.0, gathers[at] - ledger.available(now, gathers[at]))
            if not rest[at]:
                gathers[at] = 0.0
        self.share.want(tuple(rest), tuple(gathers), now)

    def _reserved_soon(self, now: float) -> list[float]:
        """Return what the reserved capacity of each bound pays for within a second. The rest of a
        longer window comes later: what would wait for it needs shared capacity."""
        found = []
        amounts = zip(self.limits.bounds, self._in_proportion(self.reserved), strict=True)
        for ledger, (bound, capacity) in zip(self.reserved_ledgers, amounts, strict=True):
            left = max(0.0, capacity - ledger.spent(now))
            if left and bound.kind is BoundKind.RATE:
                left = min(left, ledger.available(now) + capacity / ledger.period * SOON)
            found.append(left)
        return found
