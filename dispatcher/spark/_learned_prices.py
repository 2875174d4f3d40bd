"""Learned costs of rows. Rows are divided into batches by the cost with which learning starts,
since a replay has to make the same batches. A batch is charged by the present estimate.

Each process learns by itself: tasks that run in it one after the other share what they learn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dispatcher.learned import KindOfCost, Learned
from limiters._costs import NUMBERS, AnyCost, Costs
from limiters._support.validation import ArgumentError


def check_learned(name: str, learned: Learned, *, of_dimension: bool = False) -> None:
    """Refuse a learned cost that rows cannot have."""
    if learned._by is not None:
        advice = "all rows are of one kind, whose cost is learned for a row"
        raise ArgumentError(name, learned, "be Learned without `by`", advice)
    if of_dimension and isinstance(learned.estimate_at_first, Costs):
        advice = "its dimension is named already"
        raise ArgumentError(name, learned, "be Learned with a number as its start", advice)


def starts_of(cost: Any) -> Any:
    """Return `cost` with each Learned replaced by the number with which it starts."""
    if isinstance(cost, Learned):
        start = cost.estimate_at_first
        return dict(start) if isinstance(start, Costs) else start
    if isinstance(cost, Mapping):
        return {name: starts_of(one) for name, one in cost.items()}
    return cost


def learned_of(cost: Any) -> dict[str, Learned]:
    """Return the Learned costs in `cost`, by dimension: "" where costs are numbers."""
    if isinstance(cost, Learned):
        start = cost.estimate_at_first
        return dict.fromkeys(start, cost) if isinstance(start, Costs) else {"": cost}
    if isinstance(cost, Mapping):
        return {name: one for name, one in cost.items() if isinstance(one, Learned)}
    return {}


@dataclass(frozen=True, slots=True)
class LearnedPrices:
    """The learned costs of rows, by dimension."""

    by_dimension: Mapping[str, Learned]
    starts: Mapping[str, float]

    @classmethod
    def of(cls, learned: Mapping[str, Learned], starts: Mapping[str, Any]) -> LearnedPrices:
        """Return the prices for `learned`, where rows cost `starts` at first; both in the limit's
        form."""
        return cls(learned, {name: float(starts[name]) for name in learned})

    def factors(self) -> Mapping[str, float]:
        """Return the present estimates, each divided by the cost with which it started."""
        return {
            name: _amount(learned.estimate(), name) / self.starts[name]
            for name, learned in self.by_dimension.items()
        }

    def learn(self, actual: AnyCost, rows: int) -> None:
        """Note that `rows` rows have cost `actual` together."""
        each: dict[int, tuple[Learned, dict[str, float]]] = {}
        for name, learned in self.by_dimension.items():
            _, paid = each.setdefault(id(learned), (learned, {}))
            paid[name] = max(0.0, _amount(actual, name)) / rows
        for learned, paid in each.values():
            by_name = isinstance(learned.estimate_at_first, Costs) and "" not in paid
            learned._note(None, Costs(paid) if by_name else next(iter(paid.values())))


class PackCost(KindOfCost):
    """The cost of one batch. Its actual cost updates the estimates of the rows."""

    __slots__ = ("_besides", "_prices", "_rows")

    def __init__(self, charge: AnyCost, prices: LearnedPrices, besides: AnyCost, rows: int) -> None:
        self.estimate = charge
        self.kind = None
        self.is_learned = True
        self._prices = prices
        self._besides = besides
        self._rows = rows

    def learn(self, actual: AnyCost) -> None:
        """Divide the actual cost of the rows equally among them, and learn from it."""
        if self._rows:
            self._prices.learn(actual - self._besides, self._rows)

    def learners(self) -> Iterable[tuple[Learned, str]]:
        """Return the costs that learn from the rows, each with its dimension."""
        return ((learned, name) for name, learned in self._prices.by_dimension.items())


def scaled(cost: AnyCost, factors: Mapping[str, float]) -> AnyCost:
    """Return `cost` at the present estimates.

    >>> scaled(Costs({"requests": 2, "tokens": 100}), {"tokens": 0.5}), scaled(8, {"": 0.25})
    (Costs(requests=2, tokens=50), 2.0)
    """
    if not factors:
        return cost
    if isinstance(cost, NUMBERS):
        return cost * factors.get("", 1.0)
    return Costs({name: one * factors.get(name, 1.0) for name, one in cost.items()})


def _amount(cost: AnyCost, name: str) -> float:
    return cost.amount(name) if isinstance(cost, Costs) and name else _only(cost)


def _only(cost: AnyCost) -> float:
    return next(iter(cost.values()), 0.0) if isinstance(cost, Costs) else cost
