"""Costs of rows and batches as users give them, in the dimensions of the limit.

A price is a number, a function of a row, or an SQL expression or a Column that Spark evaluates.
Where costs are numbers there is one price, of the dimension ""; also where the limit has
one dimension with a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

from dispatcher.learned import Learned
from dispatcher.spark._learned_prices import LearnedPrices, check_learned, learned_of, starts_of
from dispatcher.spark._most_cost import UNBOUNDED, MostCost
from limiters import LimiterConfig
from limiters._costs import NUMBERS, AnyCost, Costs, checked_cost
from limiters._support.callables import check_plain
from limiters._support.validation import UNSHOWN, ArgumentError, amount
from limiters.limits import BoundKind, Limits

Price = Any
TaskPrice = float | Callable[[Any], float]
"""A price that tasks evaluate."""


def is_number(price: Price) -> bool:
    """Whether the price is a number. (Type checkers do not check numeric types.)"""
    return isinstance(price, (Real, Decimal))


def check_cost(name: str, cost: Any, travels: Callable[[str, object], None]) -> None:
    """Refuse a value that cannot be the cost of a row under any limit."""
    if isinstance(cost, Mapping):
        for dimension, price in cost.items():
            if not (isinstance(dimension, str) and dimension):
                raise ArgumentError(name, cost, "have texts that are not empty as dimensions")
            _check_price(f"{name}[{dimension!r}]", price, travels)
    elif isinstance(cost, Learned):
        check_learned(name, cost)
    else:
        _check_price(name, cost, travels)


def _check_price(name: str, price: Price, travels: Callable[[str, object], None]) -> None:
    if isinstance(price, Learned):
        check_learned(name, price, of_dimension=True)
    elif is_number(price):
        amount(name, price, zero=True)
    elif callable(price):
        check_plain(name, price)
        travels(name, price)
    elif not (price if isinstance(price, str) else hasattr(price, "cast")):  # Connect's Column, too
        raise ArgumentError(
            name, price, "be a number, an SQL expression, a Column, Learned or a function of a row"
        )


@dataclass(frozen=True, slots=True)
class Prices:
    """Costs of rows and batches, in the form in which the limit adds costs up."""

    of_row: Mapping[str, Price]
    of_batch: AnyCost
    """The cost of a batch in addition to its rows."""
    chosen: MostCost
    """The largest cost of all rows of a batch by `max_batch_cost` alone."""
    most: MostCost
    """The largest cost of all rows of a batch by `max_batch_cost` and by what the limit can
    grant."""
    form: CostForm
    """The form in which the limit adds costs up."""
    learned: LearnedPrices
    """The learned costs of rows."""

    @classmethod
    def of(
        cls,
        cost: Any,
        batch_cost: Any = 0,
        max_batch_cost: Any = None,
        limiter: LimiterConfig | None = None,
    ) -> Prices:
        """Return the prices. ArgumentError if they are not in the limit's dimensions, or if a batch
        without rows would cost too much."""
        cost, learned = starts_of(cost), learned_of(cost)
        granted = None if limiter is None else limiter.build()
        limits = None if granted is None else granted.limits
        form = CostForm(limits, named=limits is None and isinstance(cost, Mapping))
        of_batch = form.normal("batch_cost", checked_cost("batch_cost", batch_cost))
        most = MostCost.of(None if granted is None else granted.max_capacity)
        _check_batch(batch_cost, of_batch, most, "the largest cost that the limit can grant")
        chosen = UNBOUNDED
        if max_batch_cost is not None:
            bound = checked_bound("max_batch_cost", max_batch_cost)
            chosen = MostCost.of(form.normal("max_batch_cost", bound))
            _check_batch(batch_cost, of_batch, chosen, "max_batch_cost")
        most = MostCost.of(dict(most.amounts), dict(chosen.amounts))
        of_row = form.by_dimension(cost)
        if learned and "" in of_row:
            learned = {"": next(iter(learned.values()))}
        return cls(
            of_row,
            of_batch,
            chosen.less(of_batch),
            most.less(of_batch),
            form,
            LearnedPrices.of(learned, of_row),
        )

    def check_calls(self, longest: float) -> None:
        """Refuse calls that take no slot of the limit, or that may last longer than the limit's
        max_operation_time. Only drivers call this: tasks do not have the costs that Spark
        evaluates."""
        limits = self.form.limits
        if limits is None:
            return
        if self.form.slots and not limits.is_scalar:
            known = self.of_batch + Costs(dict.fromkeys(self.of_row, 1))
            first = min(self.form.slots)
            advice = f"as in {{{first!r}: 1}}, or {first}=1 where it is a text"
            try:
                limits.check_call("batch_cost", known, advice)
            except ArgumentError as error:  # of a row's cost only the name is known
                raise ArgumentError("batch_cost", UNSHOWN, error.requirement, advice) from None
        limits.check_longest_call("max_operation_time", longest)

    @property
    def of_spark(self) -> dict[str, Price]:
        """The prices that Spark evaluates: SQL expressions and Columns."""
        return {
            name: price
            for name, price in self.of_row.items()
            if not (is_number(price) or callable(price))
        }

    @property
    def of_tasks(self) -> dict[str, TaskPrice]:
        """The prices that tasks evaluate: numbers and functions."""
        return {
            name: price if callable(price) else float(price)
            for name, price in self.of_row.items()
            if is_number(price) or callable(price)
        }

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions in which rows or batches cost something."""
        of_batch = ("",) if isinstance(self.of_batch, NUMBERS) else tuple(self.of_batch)
        return tuple(dict.fromkeys((*self.of_row, *(of_batch if self.of_batch else ()))))


def checked_bound(name: str, bound: Any) -> AnyCost:
    """Return `bound`. ArgumentError unless it is a number or a mapping of dimensions to numbers,
    all more than zero."""
    if not isinstance(bound, Mapping):
        return amount(name, bound, expected="a number, or a mapping such as {'tokens': 5_000}")
    for dimension, one in bound.items():
        amount(f"{name}[{dimension!r}]", one)
    return checked_cost(name, bound)


def without_those_of_spark(cost: Any) -> Any:
    """Return `cost` without the prices that Spark evaluates."""
    if isinstance(cost, Mapping):
        return {name: one for name, one in cost.items() if _is_of_tasks(one)}
    return cost if _is_of_tasks(cost) else 0


def _is_of_tasks(cost: Any) -> bool:
    return is_number(cost) or callable(cost) or isinstance(cost, Learned)


@dataclass(frozen=True, slots=True)
class CostForm:
    """The form in which costs are added up: that of the limit, or, without one, that of a row's
    cost."""

    limits: Limits | None
    named: bool
    """Whether the cost of a row has dimensions, where there is no limit."""

    @property
    def slots(self) -> frozenset[str]:
        """The dimensions that count calls in flight."""
        if self.limits is None:
            return frozenset()
        slots = (one for one in self.limits.bounds if one.kind is BoundKind.SLOTS)
        return frozenset("" if self.limits.is_scalar else one.dimension for one in slots)

    def normal(self, name: str, cost: AnyCost) -> AnyCost:
        """Return `cost` in this form. ArgumentError of the argument `name` if that is
        impossible."""
        if self.limits is not None:
            return self.limits.normal(name, cost)
        if isinstance(cost, Costs) is self.named:
            return cost
        if not cost:
            return Costs() if self.named else 0
        like = "a mapping of dimensions" if self.named else "a number"
        given = dict(cost) if isinstance(cost, Costs) else cost
        raise ArgumentError(name, given, f"be {like}, as cost is")

    def by_dimension(self, cost: Any) -> dict[str, Price]:
        """Return the prices of a row by dimension."""
        limits = self.limits
        if isinstance(cost, Mapping):
            # Only the names matter here, and that slots are whole.
            known = {name: (float(one) if is_number(one) else 0) or 1 for name, one in cost.items()}
            self.normal("cost", Costs(known))
            if limits is None or not limits.is_scalar:
                return dict(cost)
            return {"": next(iter(cost.values()), 0)}
        if limits is None or limits.is_scalar:
            return {"": cost}
        if is_number(cost):
            self.normal("cost", cost if isinstance(cost, NUMBERS) else float(cost))
            return {}
        first = limits.dimensions[0]
        advice = f"the limit has several: {{{first!r}: ...}}, or {first}=... where it is a text"
        raise ArgumentError("cost", cost, "say of which dimension it is", advice)


def _check_batch(given: Any, of_batch: AnyCost, most: MostCost, by: str) -> None:
    dimension = most.beyond(of_batch)
    if dimension is not None:
        of = f" of {dimension}" if dimension else ""
        raise ArgumentError(
            "batch_cost", given, f"be at most {most.amount(dimension):g}{of}", f"that is {by}"
        )
