"""Costs in several dimensions, for limits that have more than one.

A cost is a number, or `Costs`. Both can be added and subtracted, and `sum()` adds them, so code
that only adds costs up works with both.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping
from typing import Any

from limiters._plain_numbers import plain
from limiters._support.float_error import covers
from limiters._support.validation import ArgumentError, amount


class Costs(Mapping[str, float]):
    """An amount for each of several dimensions. Immutable; a dimension with an amount of zero is
    left out.

    >>> cost = Costs({"requests": 1, "tokens": 812})
    >>> cost + {"tokens": 188}
    Costs(requests=1, tokens=1000)
    >>> sum([cost, cost]), bool(cost - cost)
    (Costs(requests=2, tokens=1624), False)
    >>> cost.amount("calls")
    0
    """

    __slots__ = ("_amounts",)

    def __init__(self, amounts: Mapping[str, float] | None = None) -> None:
        self._amounts = {name: one for name, one in (amounts or {}).items() if one}

    def amount(self, dimension: str) -> float:
        """Return the amount of one dimension; 0 if it has none."""
        return self._amounts.get(dimension, 0)

    def __getitem__(self, dimension: str) -> float:
        return self._amounts[dimension]

    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    def items(self) -> ItemsView[str, float]:
        """Return the pairs of dimensions and amounts."""
        return self._amounts.items()  # Mapping.items would look each of them up

    def __len__(self) -> int:
        return len(self._amounts)

    def __add__(self, other: AnyCost | Mapping[str, float]) -> Costs:
        amounts = dict(self._amounts)
        for name, one in _named(other):
            amounts[name] = amounts.get(name, 0) + one
        return Costs(amounts)

    __radd__ = __add__

    def __sub__(self, other: AnyCost | Mapping[str, float]) -> Costs:
        amounts = dict(self._amounts)
        for name, one in _named(other):
            amounts[name] = amounts.get(name, 0) - one
        return Costs(amounts)

    def __rsub__(self, other: AnyCost | Mapping[str, float]) -> Costs:
        return Costs(dict(_named(other))) - self

    def __mul__(self, factor: float) -> Costs:
        return Costs({name: one * factor for name, one in self._amounts.items()})

    __rmul__ = __mul__

    def combined(self, other: Costs, choose: Callable[[float, float], float]) -> Costs:
        """Return the Costs of `choose(own, other's)` for each dimension that is in one of them.

        >>> Costs({"a": 2, "b": 1}).combined(Costs({"a": 1}), min)
        Costs(a=1)
        """
        names = dict.fromkeys((*self._amounts, *other._amounts))
        return Costs({name: choose(self.amount(name), other.amount(name)) for name in names})

    def __gt__(self, other: AnyCost) -> bool:
        """Whether it is more than `other` in any dimension. A number has no amount in any of them.

        >>> Costs({"tokens": 5}) > Costs({"tokens": 5}), Costs({"tokens": 5}) > 100
        (False, True)
        """
        there = other if isinstance(other, Costs) else Costs()
        return any(one > there.amount(name) for name, one in self.items())

    def cover(self, cost: Mapping[str, float]) -> bool:
        """Whether there is enough for `cost` in each dimension."""
        return all(covers(self.amount(name), one) for name, one in cost.items())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NUMBERS):
            return not (self._amounts or other)
        return dict.__eq__(self._amounts, dict(other)) if isinstance(other, Mapping) else False

    def __hash__(self) -> int:
        return hash(frozenset(self._amounts.items()))

    def __repr__(self) -> str:
        return f"Costs({', '.join(f'{name}={plain(one)}' for name, one in self.items())})"


NUMBERS = (int, float)
"""The types of the other kind of cost. An isinstance test is much faster with them than with Costs,
which is a Mapping."""

AnyCost = float | Any
"""A number for a limit of one dimension, Costs for a limit of several. A type checker cannot see
the limit, so it accepts programs for one dimension as they are."""


Amounts = float | Mapping[str, float]
"""An actual cost as it was given: without a dimension, or in the dimensions that it names."""


def _named(cost: AnyCost | Mapping[str, float]) -> Iterator[tuple[str, float]]:
    if isinstance(cost, Mapping):
        yield from cost.items()
    elif cost:
        raise TypeError(f"{plain(cost)} does not say of which dimension it is")


A_COST = "a number, or a mapping such as {'tokens': 812}"
"""The forms of a cost, in an error."""


def checked_cost(name: str, value: object) -> AnyCost:
    """`value` as a cost: a number, or a mapping of dimensions to numbers; zero or more."""
    if isinstance(value, NUMBERS) or not isinstance(value, Mapping):
        return amount(name, value, zero=True, expected=A_COST)
    amounts = {}
    for dimension, one in amounts_in(name, value).items():
        if not isinstance(dimension, str) or not dimension:
            raise ArgumentError(name, value, "have texts that are not empty as dimensions")
        amounts[dimension] = amount(f"{name}[{dimension!r}]", one, zero=True)
    return Costs(amounts)


def amounts_in(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items of any mapping. ArgumentError of the argument `name` if its methods
    raise."""
    if isinstance(value, Costs) or type(value) is dict:
        return dict(value.items())  # only a signal handler can raise here: let it pass
    try:
        return {dimension: value[dimension] for dimension in value}
    except Exception as error:
        requirement = "be a mapping that can be read"
        raise ArgumentError(
            name, value, requirement, f"it raised {type(error).__name__}"
        ) from error


def replaced(cost: AnyCost, amounts: Amounts) -> AnyCost:
    """Return `cost` with these amounts in place of its own: a number replaces it.

    >>> replaced(Costs({"calls": 1, "tokens": 5}), {"tokens": 0}), replaced(5, 0), replaced(5, {})
    (Costs(calls=1), 0, 5)
    """
    if isinstance(amounts, NUMBERS):
        return amounts
    if not amounts:
        return cost
    return Costs({**cost, **amounts} if isinstance(cost, Costs) else amounts)


def lesser(one: AnyCost, other: AnyCost) -> AnyCost:
    """Return the smaller amount of two costs of either kind, in each dimension.

    >>> lesser(5, 4), lesser(Costs({"tokens": 5, "calls": 1}), Costs({"tokens": 6}))
    (4, Costs(tokens=5))
    """
    if isinstance(one, NUMBERS):
        return min(one, other)
    return one.combined(other, min) if isinstance(other, Costs) else Costs()


def greater(one: AnyCost, other: AnyCost) -> AnyCost:
    """Return the larger amount of two costs of either kind, in each dimension.

    >>> greater(5, 4), greater(Costs({"tokens": 5, "calls": 1}), Costs({"tokens": 6}))
    (5, Costs(tokens=6, calls=1))
    """
    if isinstance(one, NUMBERS):
        return max(one, other) if isinstance(other, NUMBERS) else other
    return one.combined(other, max) if isinstance(other, Costs) else one


def is_covered(there: AnyCost, cost: AnyCost) -> bool:
    """Whether `there` is enough for `cost`, for costs of either kind.

    >>> is_covered(5, 4), is_covered(Costs({"tokens": 5}), Costs({"tokens": 6}))
    (True, False)
    """
    if isinstance(there, NUMBERS):
        return covers(there, cost)
    return isinstance(cost, NUMBERS) or bool(there.cover(cost))


def plain_cost(cost: AnyCost) -> str:
    """Return the text of `cost` for messages.

    >>> plain_cost(20_000.0), plain_cost(Costs({"requests": 1, "tokens": 812})), plain_cost(Costs())
    ('20000', 'requests 1, tokens 812', '0')
    """
    if isinstance(cost, Costs):
        return ", ".join(f"{name} {plain(one)}" for name, one in cost.items()) or "0"
    return plain(cost)
