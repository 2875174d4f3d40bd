"""The largest cost of the rows of a batch, in each dimension of the limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from limiters._costs import NUMBERS, AnyCost, Costs


@dataclass(frozen=True, slots=True)
class MostCost:
    """An amount for each dimension in which a batch is bounded; "" where costs are numbers.

    A cost in other dimensions than these is not bounded, and is ignored here. So a replay is
    divided as it was begun, even if the dimensions of the limit have changed.

    >>> most = MostCost.of({"requests": 10, "tokens": 90_000}, {"tokens": 5_000})
    >>> most.sizes_of(Costs({"tokens": 812}))
    (0, 812)
    >>> most.beyond(Costs({"tokens": 5_001}))
    'tokens'
    """

    amounts: tuple[tuple[str, float], ...] = ()
    """Pairs of a dimension and an amount, sorted by dimension."""

    @classmethod
    def of(cls, *bounds: float | Mapping[str, float] | None) -> MostCost:
        """Return the smallest of `bounds` in each dimension; None bounds nothing."""
        smallest: dict[str, float] = {}
        for bound in bounds:
            for name, one in _named(bound):
                smallest[name] = min(one, smallest.get(name, one))
        return cls(tuple(sorted(smallest.items())))

    def less(self, cost: AnyCost) -> MostCost:
        """Return the bounds minus `cost`."""
        if not cost:
            return self
        return MostCost(tuple((name, one - _amount(cost, name)) for name, one in self.amounts))

    @property
    def sizes(self) -> tuple[float, ...]:
        """The amounts, without their dimensions."""
        return tuple(one for _, one in self.amounts)

    def sizes_of(self, cost: AnyCost) -> tuple[float, ...]:
        """Return the part of `cost` in each bounded dimension."""
        return tuple(_amount(cost, name) for name, _ in self.amounts)

    def beyond(self, cost: AnyCost) -> str | None:
        """Return a dimension in which `cost` exceeds the bound; None if there is none."""
        for name, one in self.amounts:
            if _amount(cost, name) > one:
                return name
        return None

    def amount(self, dimension: str) -> float:
        """Return the bound of `dimension`, which must be bounded."""
        return dict(self.amounts)[dimension]

    def bounded(self, cost: AnyCost) -> AnyCost:
        """Return `cost`, reduced to the bound in each dimension that exceeds it."""
        if self.beyond(cost) is None:
            return cost
        if isinstance(cost, NUMBERS):
            return min(cost, self.amount(""))
        most = dict(self.amounts)
        return Costs({name: min(one, most.get(name, one)) for name, one in cost.items()})

    def written(self) -> str:
        """Return the text that is stored.

        >>> [MostCost.of(most).written() for most in (None, 500, {"calls": 1, "a b": 2})]
        ['-', '500.0', 'a%20b=2.0,calls=1.0']
        """
        if not self.amounts:
            return "-"
        if self.are_numbers:
            return repr(float(self.amount("")))
        return ",".join(f"{quote(name, safe='')}={float(one)!r}" for name, one in self.amounts)

    @classmethod
    def read(cls, written: str) -> MostCost:
        """Return the bounds that `written` stands for. ValueError if it is damaged."""
        if written == "-":
            return cls()
        if "=" not in written:
            return cls.of(float(written))
        pairs = (pair.split("=") for pair in written.split(","))
        return cls.of({unquote(name): float(one) for name, one in pairs})

    @property
    def are_numbers(self) -> bool:
        """Whether the bounds are of costs without dimensions, or there are none."""
        return all(not name for name, _ in self.amounts)


UNBOUNDED = MostCost()


def _named(bound: float | Mapping[str, float] | None) -> list[tuple[str, float]]:
    if bound is None:
        return []
    return list(bound.items()) if isinstance(bound, Mapping) else [("", bound)]


def _amount(cost: AnyCost, dimension: str) -> float:
    if isinstance(cost, NUMBERS):
        return 0 if dimension else cost
    amount: float = cost.amount(dimension)
    return amount
