"""What each row of a group costs, in each dimension of the limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dispatcher.spark._most_cost import MostCost
from limiters._costs import AnyCost, Costs

if TYPE_CHECKING:
    import numpy as np

    Amounts = float | np.ndarray[Any, Any]
    """What any row costs, or each of them."""


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
        """Where costs have no dimensions."""

    def of(self, places: Sequence[int]) -> AnyCost:
        """What these rows cost together."""
        if self._number is not None:
            return _sum(self._number, places)
        return Costs({name: _sum(one, places) for name, one in self._amounts.items()})

    def column(self, dimension: str, places: Sequence[int]) -> list[float]:
        """What each of them costs in one dimension; zeros if they cost nothing there."""
        return _list(self._amounts.get(dimension, 0.0), places)

    def beyond(self, places: Sequence[int], most: MostCost) -> list[tuple[int, str, float]]:
        """Which of `places` have a row that alone costs more than `most`, by their number, in which
        dimension, and what it costs there."""
        found: dict[int, tuple[str, float]] = {}
        for name, limit in most.amounts:
            amounts = self._amounts.get(name, 0.0)
            if not (isinstance(amounts, float) and amounts <= limit):
                for index, cost in enumerate(_list(amounts, places)):
                    if cost > limit:
                        found.setdefault(index, (name, cost))
        return [(index, *found[index]) for index in sorted(found)]

    def unusable(self, whole: Container[str] = ()) -> tuple[str, str] | None:
        """A dimension in which a cost cannot be charged, and what is wrong with it; None if all
        can. In the dimensions `whole` only whole numbers can."""
        import numpy as np

        for dimension, amounts in self._amounts.items():
            if not np.all(np.isfinite(amounts) & (np.asarray(amounts) >= 0)):
                return dimension, "null, negative or not finite: let it be a number of zero or more"
            if dimension in whole and np.any(np.mod(amounts, 1)):
                return dimension, "not whole: let it be a number of calls in flight"
        return None

    def reach(self, places: Sequence[int], most: MostCost) -> Callable[[int], int]:
        """A function from the number of a row in `places` to that of the first one that does not
        fit into one batch with it and all in between."""
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
