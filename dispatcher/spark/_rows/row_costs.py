"""Costs of the rows of a group, in each dimension of the limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from decimal import Decimal
from numbers import Real
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

    __slots__ = ("_amounts", "_number", "refused")

    def __init__(
        self, amounts: Mapping[str, Amounts], refused: Mapping[int, str] | None = None
    ) -> None:
        self._amounts = amounts
        self.refused = refused or {}
        """For each row whose cost cannot be charged, by its place: why. It counts as zero."""
        self._number = amounts.get("")
        """The costs if they have no dimensions, else None."""

    @classmethod
    def checked(
        cls, amounts: Mapping[str, Amounts], refused: dict[int, str], whole: Container[str] = ()
    ) -> RowCosts:
        """Return the costs, with each row refused whose cost cannot be charged, in addition to
        `refused`. In the dimensions `whole` only whole numbers can be charged. One cost for all
        rows was checked when the sink was made."""
        import numpy as np

        usable = dict(amounts)
        for dimension, found in amounts.items():
            if isinstance(found, float):
                continue
            good = np.isfinite(found) & (found >= 0)
            if dimension in whole:
                good &= np.mod(np.where(good, found, 0), 1) == 0
            for place in np.flatnonzero(~good).tolist():
                reason = why_unusable(float(found[place]), dimension, dimension in whole)
                refused.setdefault(place, reason)
            if not good.all():
                usable[dimension] = np.where(good, found, 0.0)
        return cls(usable, refused)

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


def numbers(values: Sequence[Any], dimension: str) -> tuple[np.ndarray[Any, Any], dict[int, str]]:
    """Return what a function of a row has returned for each row as numbers, and for each that is
    none, by its place, why its row is refused."""
    import numpy as np

    found = np.asarray(values)
    if found.dtype.kind in "biuf":
        return found.astype(float), {}
    amounts, refused = np.zeros(len(values)), dict[int, str]()
    for place, value in enumerate(values):
        if isinstance(value, (Real, Decimal)):
            amounts[place] = float(value)
        else:
            refused[place] = f"its cost{_of(dimension)} is {value!r}, which is not a number"
    return amounts, refused


def why_unusable(cost: float, dimension: str, whole: bool) -> str:
    """Return why a row is refused whose cost cannot be charged.

    >>> why_unusable(-1.0, "tokens", whole=False)
    'its cost of tokens is -1, and a cost is a number of zero or more'
    """
    value = "null or NaN" if cost != cost else f"{cost:,g}"
    must = "a number of calls in flight is whole" if whole else "a cost is a number of zero or more"
    return f"its cost{_of(dimension)} is {value}, and {must}"


def _of(dimension: str) -> str:
    return f" of {dimension}" if dimension else ""


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
