"""Costs of the rows of a group, in each dimension of the limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dispatcher.spark._most_cost import MostCost
from limiters._costs import AnyCost, Costs

if TYPE_CHECKING:
    import numpy as np

    Amounts = float | np.ndarray[Any, Any]
    """One cost for all rows, or the cost of each row."""


class RowCosts:
    """The costs of rows, by their places.

    >>> costs = RowCosts({"requests": 1.0, "tokens": 400.0})
    >>> costs.of(range(3))
    Costs(requests=3, tokens=1200)
    >>> RowCosts({"": 2.5}).of([7, 8])
    5.0
    """

    __slots__ = ("_amounts", "_number")

    def __init__(self, amounts: Mapping[str, Amounts]) -> None:
        self._amounts = amounts
        self._number = amounts.get("")
        """The costs if they have no dimensions, else None."""

    def of(self, places: Sequence[int]) -> AnyCost:
        """Return the sum of the costs of these rows."""
        if self._number is not None:
            return _sum(self._number, places)
        return Costs({name: _sum(one, places) for name, one in self._amounts.items()})

    def column(self, dimension: str, places: Sequence[int]) -> list[float]:
        """Return the cost of each of these rows in one dimension."""
        return _list(self._amounts.get(dimension, 0.0), places)

    def beyond(self, places: Sequence[int], most: MostCost) -> list[tuple[int, str, float]]:
        """Return the rows at `places` that alone cost more than `most`: the index in `places`, the
        dimension and the cost in it."""
        found: dict[int, tuple[str, float]] = {}
        for name, limit in most.amounts:
            amounts = self._amounts.get(name, 0.0)
            if not (isinstance(amounts, float) and amounts <= limit):
                for index, cost in enumerate(_list(amounts, places)):
                    if cost > limit:
                        found.setdefault(index, (name, cost))
        return [(index, *found[index]) for index in sorted(found)]

    def unusable(self, whole: Container[str] = ()) -> tuple[str, str] | None:
        """Return a dimension in which a cost cannot be charged, and why; None if all costs can. In
        the dimensions `whole` only whole numbers can be charged."""
        import numpy as np

        for dimension, amounts in self._amounts.items():
            if not np.all(np.isfinite(amounts) & (np.asarray(amounts) >= 0)):
                return dimension, "null, negative or not finite: let it be a number of zero or more"
            if dimension in whole and np.any(np.mod(amounts, 1)):
                return dimension, "not whole: let it be a number of calls in flight"
        return None

    def reach(self, places: Sequence[int], most: MostCost) -> Callable[[int], int]:
        """Return a function that, given the index in `places` of the first row of a batch, returns
        the index of the first row that does not fit into the batch."""
        import numpy as np

        sums = [
            (np.concatenate(([0.0], np.cumsum(self.column(name, places)))), limit)
            for name, limit in most.amounts
        ]

        def end(begin: int) -> int:
            ends = (int(sum_.searchsorted(sum_[begin] + limit, "right")) for sum_, limit in sums)
            return min((one - 1 for one in ends), default=len(places))

        return end


def _sum(amounts: Amounts, places: Sequence[int]) -> float:
    if isinstance(amounts, float):
        return amounts * len(places)
    return float(_at(amounts, places).sum())


def _list(amounts: Amounts, places: Sequence[int]) -> list[float]:
    if isinstance(amounts, float):
        return [amounts] * len(places)
    found: list[float] = _at(amounts, places).tolist()
    return found


def _at(values: np.ndarray[Any, Any], places: Sequence[int]) -> np.ndarray[Any, Any]:
    if isinstance(places, range):
        return values[places.start : places.stop]
    return values[places]
