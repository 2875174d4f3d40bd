"""The actual cost of a batch, or of some of its rows, as its handler settles it."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from typing import Any

from dispatcher.operation import Operation
from dispatcher.settlement import RunningCall
from dispatcher.spark._learned_prices import scaled
from dispatcher.spark._prices import CostForm
from dispatcher.spark._rows.packs import Pack
from dispatcher.spark._task.handed import places_of
from dispatcher.spark.context import SubjectRows
from limiters._costs import NUMBERS, AnyCost, checked_cost
from limiters._support.validation import UNSHOWN, ArgumentError
from limiters.errors import SettlementError

Places = Sequence[int]
"""Places of rows in the batch."""


class RowSettlements:
    """The actual costs of rows in one call, in place of what was charged for these rows. Pure.

    * `charged`: the charge of the call, including its batch cost.
    * `estimate`: returns the charge of some of its rows.
    """

    def __init__(self, charged: AnyCost, estimate: Callable[[Places], AnyCost]) -> None:
        self._charged = charged
        self._estimate = estimate
        self._actual: dict[tuple[int, ...], float | Mapping[str, float]] = {}
        self._of: dict[int, tuple[int, ...]] = {}

    def settle(self, rows: Places, actual: float | Mapping[str, float]) -> float | dict[str, float]:
        """Note that `rows` cost `actual` together, and return the cost of the call in the
        dimensions that were named so far. The last settlement of the same rows counts.
        SettlementError if some of them were settled together with others."""
        part = tuple(sorted(rows))
        for row in part:
            if self._of.get(row, part) != part:
                raise SettlementError(
                    f"row {row} of the batch was settled together with other rows: settle the same "
                    "ones again, or all of the batch"
                )
        self._of.update(dict.fromkeys(part, part))
        self._actual[part] = actual
        return self._total()

    def _total(self) -> float | dict[str, float]:
        # A sum of fractions may be slightly below zero.
        if isinstance(self._charged, NUMBERS):
            numbers = (
                (part, one) for part, one in self._actual.items() if isinstance(one, NUMBERS)
            )
            return max(
                0.0, self._charged + sum(one - self._estimate(part) for part, one in numbers)
            )
        total: dict[str, float] = {}
        for part, actual in self._actual.items():
            estimate = self._estimate(part)
            assert not isinstance(actual, NUMBERS)
            assert not isinstance(estimate, NUMBERS)
            for name, amount in actual.items():
                before = total.get(name, self._charged.amount(name))
                total[name] = before - estimate.amount(name) + amount
        return {name: max(0.0, amount) for name, amount in total.items()}


class CallSettlement:
    """The settlements of one call of a handler, through its context. Thread-safe."""

    def __init__(
        self,
        operation: Operation,
        pack: Pack,
        handed: list[Any],
        subjects: Sequence[SubjectRows],
        form: CostForm,
    ) -> None:
        self._operation = operation
        self._call = RunningCall([operation])
        self._units = pack.left
        self._factors = pack.factors
        self._begins = list(accumulate(pack.lengths, initial=0))
        self._handed = handed
        self._subjects = subjects
        self._form = form
        self._lock = threading.Lock()
        self._rows = RowSettlements(pack.charge, self._estimate)
        self._charged = pack.charge
        self._noted: dict[str, float] = {}
        self._is_whole = False
        self._has_ended = False

    def end(self) -> dict[str, float]:
        """End it, since the handler has returned or raised. Return by how much the cost of the call
        is more than it was charged, in the dimensions that were settled."""
        with self._lock:
            self._has_ended = True
            charged = self._charged
            if isinstance(charged, NUMBERS):
                return {name: cost - charged for name, cost in self._noted.items()}
            return {name: cost - charged.amount(name) for name, cost in self._noted.items()}

    def settle(self, actual: object, subject: object, rows: Iterable[Any] | None) -> None:
        """Note that the batch, the rows of `subject`, or `rows` cost `actual` together."""
        cost = self._form.normal("actual", checked_cost("actual", actual))
        with self._lock:
            if subject is None and rows is None:
                self._settle_call(lambda: self._call.settle(actual))
                self._is_whole = True
                self._note(actual, cost)
                return
            if self._is_whole:
                raise SettlementError(
                    "this batch was settled as a whole: settle it as a whole again, without "
                    "subject and rows"
                )
            if isinstance(actual, Mapping) and not isinstance(cost, NUMBERS):
                cost = dict(actual)  # Costs would drop dimensions whose actual cost is zero
            total = self._rows.settle(self._places(subject, rows), cost)
            self._settle_call(lambda: self._call.settle_one(self._operation, total))
            self._note(total, total)

    def _settle_call(self, settle: Callable[[], None]) -> None:
        """Pass a settlement on to the Batcher, to which the call is a batch of one operation."""
        if not self._is_charged:
            return
        if self._has_ended:
            raise SettlementError(
                "this call of the handler has ended: settle its cost before it returns"
            )
        settle()

    def _note(self, actual: object, cost: AnyCost | Mapping[str, float]) -> None:
        if isinstance(cost, NUMBERS):
            self._noted[""] = float(cost)
        elif isinstance(actual, Mapping):
            self._noted.update(actual)

    @property
    def _is_charged(self) -> bool:
        return self._form.limits is not None

    def _places(self, subject: object, rows: Iterable[Any] | None) -> Places:
        if rows is None:
            return self._places_of(subject)
        if subject is not None:
            advice = "rows of which the subject is named are settled together"
            raise ArgumentError("rows", UNSHOWN, "be left out where subject is given", advice)
        if any(unit.costs is None for unit in self._units):
            raise SettlementError(
                "a batch of EventTimeSink has one cost, and its messages have none of their own: "
                "leave rows out to settle the batch"
            )
        try:
            places = places_of(self._handed, rows)
        except KeyError:
            raise SettlementError(
                "rows must be rows of this batch, the very objects that the handler was given, or "
                'their numbers with rows="arrow"'
            ) from None
        if not places:
            raise SettlementError("there are no rows in rows: leave it out to settle all of them")
        return places

    def _places_of(self, subject: object) -> Places:
        if not self._subjects:
            raise SettlementError(
                "the rows of a subject do not lie together in this batch, and context.subjects is "
                "empty: name them by rows=, or leave subject out to settle the batch"
            )
        found = [one for one in self._subjects if subject in (one, one.subject)]
        if not found:
            raise SettlementError(f"{subject!r} is none of context.subjects")
        return range(found[0].start, found[0].end)

    def _estimate(self, places: Places) -> AnyCost:
        """Return the charge of the rows at `places`."""
        whole = tuple(places)
        costs = []
        for number, some in groupby(whole, lambda place: bisect_right(self._begins, place) - 1):
            unit, begin = self._units[number], self._begins[number]
            mine = [place - begin for place in some]
            all_of_it = len(mine) == self._begins[number + 1] - begin and unit.records is None
            costs.append(unit.cost if all_of_it or unit.costs is None else unit.cost_of(mine))
        return scaled(sum(costs), self._factors)
