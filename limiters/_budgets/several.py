"""The bounds of a limit as one: what is charged is charged to all of them, or to none. Pure.

Amounts come as costs by dimension. A dimension with several windows has several bounds, and a cost
counts in each of them; of what is there, the least of them counts.

A batch asks for no room where it is to cost nothing. If such batches do cost something there, and
so much that nothing is left, nothing starts until the bound fits again: they would go on without
end otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from limiters._budgets.ledger import BoundLedger
from limiters._budgets.purse import Parts, Purse
from limiters._budgets.spend import Payment, Spend, SpendOfSeveral, Tenure
from limiters._costs import AnyCost, lesser
from limiters.limits import BoundKind, Limits


class SpendOfBounds(SpendOfSeveral):
    """One batch, charged to several bounds of a limit, each by its place among them."""

    __slots__ = ("_limits", "_places")

    def __init__(self, limits: Limits, by_bound: Mapping[int, Spend]) -> None:
        super().__init__(by_bound.values())
        self._limits = limits
        self._places = tuple(by_bound)

    def settle(self, actual: AnyCost) -> bool:
        """The call costs `actual`, in all of its dimensions, as far as is known."""
        amounts = self._limits.by_bound(actual)
        settled = False
        for at, part in zip(self._places, self._parts, strict=True):
            if self._limits.bounds[at].kind is BoundKind.RATE:
                settled = part.settle(amounts[at]) or settled
        return settled


_Payer = TypeVar("_Payer")
_Part = TypeVar("_Part", float, Parts)


def _due(
    limits: Limits, payers: Iterable[_Payer], parts: Iterable[_Part]
) -> Iterator[tuple[int, _Payer, _Part]]:
    """Return who pays what, by the place of its bound. Every rate has an entry: a call may turn out
    to cost something that it was not expected to."""
    bounds = limits.bounds
    for at, (payer, part) in enumerate(zip(payers, parts, strict=True)):
        if bounds[at].kind is BoundKind.RATE or (
            part if isinstance(part, float | int) else any(part)
        ):
            yield at, payer, part


def _ready_at(payers: Iterable[BoundLedger | Purse], costs: Iterable[float], now: float) -> float:
    """When there may be enough in each bound."""
    pairs = zip(payers, costs, strict=True)
    return max(one.ready_at(cost, now) if cost else one.in_debt_until(now) for one, cost in pairs)


def _one_payment(limits: Limits, by_bound: Mapping[int, Payment]) -> Payment:
    spend = SpendOfBounds(limits, {at: one.spend for at, one in by_bound.items()})
    return Payment.of(by_bound.values(), spend)


class LedgerOfBounds:
    """The ledgers of a limit's bounds, with the methods of one. Not thread-safe.

    >>> from limiters import InFlight, Rate
    >>> from limiters._budgets.ledger import ledger_of
    >>> limits = Limits(tokens=Rate(1_000), calls=InFlight(2))
    >>> ledger = LedgerOfBounds(limits, [ledger_of(bound) for bound in limits.bounds])
    >>> ledger.available(now=0.0)
    Costs(tokens=100, calls=2)
    """

    def __init__(self, limits: Limits, ledgers: Sequence[BoundLedger]) -> None:
        self._limits = limits
        self.ledgers = tuple(ledgers)

    @property
    def capacity(self) -> AnyCost:
        """Return what no window may exceed."""
        return self._limits.smallest(one.capacity for one in self.ledgers)

    def burst(self, now: float) -> AnyCost:
        """Return what may go without a pause after a rest."""
        return self._limits.smallest(one.burst(now) for one in self.ledgers)

    def available(self, now: float, at_least: AnyCost = 0.0) -> AnyCost:
        """Return what may be charged now: nothing at all, while a bound is in debt."""
        if any(one.in_debt_until(now) > now for one in self.ledgers):
            return self._limits.nothing
        least = self._limits.by_bound(at_least)
        pairs = zip(self.ledgers, least, strict=True)
        return self._limits.smallest(one.available(now, amount) for one, amount in pairs)

    def hold(self, amount: AnyCost) -> None:
        """Sets `amount` aside for charges to come."""
        for one, part in zip(self.ledgers, self._limits.by_bound(amount), strict=True):
            one.hold(part)

    def release(self, amount: AnyCost) -> None:
        """Gives back what was held and not charged."""
        for one, part in zip(self.ledgers, self._limits.by_bound(amount), strict=True):
            one.release(part)

    def charge(self, cost: AnyCost, now: float, tenure: Tenure | None = None) -> Spend:
        """Turns `cost` of what is held into entries that count from now on."""
        due = _due(self._limits, self.ledgers, self._limits.by_bound(cost))
        return SpendOfBounds(
            self._limits, {at: one.charge(part, now, tenure) for at, one, part in due}
        )

    def payment(self, cost: AnyCost, now: float, owner: object = None) -> Payment:
        """`cost` as begun now, to be entered without setting it aside before."""
        due = _due(self._limits, self.ledgers, self._limits.by_bound(cost))
        return _one_payment(
            self._limits, {at: one.payment(part, now, owner) for at, one, part in due}
        )

    def ready_at(self, cost: AnyCost, now: float) -> float:
        """The earliest time at which `cost` may be available in all of them."""
        return _ready_at(self.ledgers, self._limits.by_bound(cost), now)

    def total(self) -> AnyCost:
        """Return what has begun, since these ledgers were made."""
        return self._limits.smallest(one.total() for one in self.ledgers)


class AnyLedger(Protocol):
    """The ledger of a limit, as its user sees it: amounts are numbers or costs by dimension, as the
    limit adds them up."""

    def burst(self, now: float) -> AnyCost:
        """Return what may go without a pause after a rest."""

    def available(self, now: float, at_least: AnyCost = 0.0) -> AnyCost:
        """Return what may be charged now."""

    def hold(self, amount: AnyCost) -> None:
        """Sets `amount` aside for charges to come."""

    def release(self, amount: AnyCost) -> None:
        """Gives back what was held and not charged."""

    def charge(self, cost: AnyCost, now: float, tenure: Tenure | None = None) -> Spend:
        """Turns `cost` of what is held into what counts from now on."""

    def payment(self, cost: AnyCost, now: float, owner: object = None) -> Payment:
        """`cost` as begun now, to be entered without setting it aside before."""

    def ready_at(self, cost: AnyCost, now: float) -> float:
        """The earliest time at which `cost` may be available."""

    def total(self) -> AnyCost:
        """Return what has begun, since it was made."""


def one_ledger(limits: Limits, ledgers: Sequence[BoundLedger]) -> AnyLedger:
    """The ledgers of all bounds of a limit as one; the only one as it is."""
    if len(ledgers) == 1:
        return cast(AnyLedger, ledgers[0])  # amounts are numbers, as of the limit
    return LedgerOfBounds(limits, ledgers)


class PartsOfBounds(NamedTuple):
    """An amount of a limit of several bounds: its parts in each of them."""

    limits: Limits
    bounds: tuple[Parts, ...]

    @property
    def amount(self) -> AnyCost:
        """Return it as a cost."""
        return self.limits.smallest(sum(parts) for parts in self.bounds)

    def up_to(self, amount: AnyCost) -> PartsOfBounds:
        """At most `amount` of it, in the order in which budgets pay."""
        # No window gives more than its dimension has in the others: that would be of no use.
        most = self.limits.by_bound(lesser(amount, self.amount))
        pairs = zip(self.bounds, most, strict=True)
        return PartsOfBounds(self.limits, tuple(parts.up_to(one) for parts, one in pairs))

    def less(self, other: PartsOfBounds) -> PartsOfBounds:
        """Return what is left of it without `other`."""
        pairs = zip(self.bounds, other.bounds, strict=True)
        return PartsOfBounds(self.limits, tuple(mine.less(its) for mine, its in pairs))

    def paying(self, cost: AnyCost) -> PartsOfBounds:
        """Return who pays for `cost`, which this covers, in each bound."""
        pairs = zip(self.bounds, self.limits.by_bound(cost), strict=True)
        return PartsOfBounds(self.limits, tuple(parts.paying(one) for parts, one in pairs))


class PurseOfBounds:
    """The purses of a limit's bounds, with the methods of one. Not thread-safe."""

    def __init__(self, limits: Limits, purses: Sequence[Purse]) -> None:
        self._limits = limits
        self.purses = tuple(purses)

    @property
    def nothing(self) -> PartsOfBounds:
        """Parts of no amount."""
        return PartsOfBounds(self._limits, (Parts(),) * len(self.purses))

    def capacity(self, now: float) -> AnyCost:
        """Return what reserved and shared capacity are worth, and what is left of a permit."""
        return self._limits.smallest(one.capacity(now) for one in self.purses)

    def burst(self, now: float) -> AnyCost:
        """Return what may go without a pause after a rest."""
        return self._limits.smallest(one.burst(now) for one in self.purses)

    def available(self, now: float, at_least: AnyCost = 0.0) -> PartsOfBounds:
        """Return what may be charged now, to each budget of each bound: nothing at all, while a
        bound is in debt."""
        if any(one.in_debt_until(now) > now for one in self.purses):
            return self.nothing
        pairs = zip(self.purses, self._limits.by_bound(at_least), strict=True)
        return PartsOfBounds(self._limits, tuple(one.available(now, least) for one, least in pairs))

    def hold(self, parts: PartsOfBounds) -> None:
        """Sets amounts aside for charges to come."""
        for purse, one in zip(self.purses, parts.bounds, strict=True):
            purse.hold(one)

    def release(self, parts: PartsOfBounds) -> None:
        """Gives back what was held and not charged."""
        for purse, one in zip(self.purses, parts.bounds, strict=True):
            purse.release(one)

    def charge(self, parts: PartsOfBounds, now: float, tenure: Tenure) -> Spend:
        """Turns what is held into entries that count from now on."""
        due = _due(self._limits, self.purses, parts.bounds)
        return SpendOfBounds(
            self._limits, {at: purse.charge(one, now, tenure) for at, purse, one in due}
        )

    def payment(self, cost: AnyCost, now: float, owner: object = None) -> Payment:
        """`cost`, which is available, as begun now: to be entered without setting it aside."""
        due = _due(self._limits, self.purses, self._limits.by_bound(cost))
        return _one_payment(
            self._limits, {at: purse.payment(one, now, owner) for at, purse, one in due}
        )

    def ready_at(self, cost: AnyCost, now: float) -> float:
        """The earliest time at which `cost` may be available in all of them."""
        return _ready_at(self.purses, self._limits.by_bound(cost), now)


class AnyParts(Protocol):
    """Parts or PartsOfBounds, with amounts as their limit adds them up."""

    @property
    def amount(self) -> AnyCost:
        """In all, as a cost."""

    def up_to(self, amount: AnyCost) -> AnyParts:
        """At most `amount` of it, in the order in which budgets pay."""

    def less(self, other: Any) -> AnyParts:
        """Return what is left of it without `other`."""

    def paying(self, cost: AnyCost) -> AnyParts:
        """Return who pays for `cost`, which this covers."""


class AnyPurse(Protocol):
    """A Purse or a PurseOfBounds, with amounts as their limit adds them up."""

    def capacity(self, now: float) -> AnyCost:
        """Return what reserved and shared capacity are worth, and what is left of a permit."""

    def burst(self, now: float) -> AnyCost:
        """Return what may go without a pause after a rest."""

    def available(self, now: float, at_least: AnyCost = 0.0) -> AnyParts:
        """Return what may be charged now."""

    def hold(self, parts: Any) -> None:
        """Sets amounts aside for charges to come."""

    def release(self, parts: Any) -> None:
        """Gives back what was held and not charged."""

    def charge(self, parts: Any, now: float, tenure: Tenure) -> Spend:
        """Turns what is held into entries that count from now on."""

    def payment(self, cost: AnyCost, now: float, owner: object = None) -> Payment:
        """`cost`, which is available, as begun now: to be entered without setting it aside."""

    def ready_at(self, cost: AnyCost, now: float) -> float:
        """The earliest time at which `cost` may be available."""


def one_purse(limits: Limits, purses: Sequence[Purse]) -> AnyPurse:
    """The purses of all bounds of a limit as one; the only one as it is."""
    if len(purses) == 1:
        return cast(AnyPurse, purses[0])  # amounts are numbers, as of the limit
    return PurseOfBounds(limits, purses)
