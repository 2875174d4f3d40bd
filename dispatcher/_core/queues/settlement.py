"""Settlements: the actual costs that the callback of a batch gives, and the correction of its
charge.

While the callback runs, the limiter receives an actual cost only if it is higher than the charge;
everything else is passed on at the end. So settling operations one by one is fast.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dispatcher import learned
from dispatcher.operation import Operation, cost_of, is_learned, learn
from dispatcher.outcomes import PartialFailure, Throttled
from limiters._costs import NUMBERS, Amounts, AnyCost, Costs, greater, replaced
from limiters._support.forking import begin_in_child
from limiters.errors import SettlementError

if TYPE_CHECKING:
    from dispatcher._core.queues.batch import OperationBatch


_settling = threading.RLock()
"""The lock of all batches, which is only held for a few steps. It is reentrant, since a signal
handler may settle in a thread that is settling."""


def settle_one(batch: OperationBatch, operation: Operation, actual: object, *, own: bool) -> None:
    """Note that `operation` of `batch` costs `actual`, but at least as much as estimated, unless
    the call is known to come from its `own` attempt."""
    amounts = batch.costs.amounts_of("actual", actual)
    with _settling:
        _settlement_of(batch, amounts).one(operation, amounts, own=own)


def settle_whole(batch: OperationBatch, actual: object) -> None:
    """Note that the whole `batch` costs `actual`."""
    amounts = batch.costs.amounts_of("actual", actual)
    with _settling:
        _settlement_of(batch, amounts).whole(amounts)


def end_of_callback(batch: OperationBatch, error: BaseException | None) -> None:
    """End the settlement of `batch`, whose callback returned or raised `error`. Called on the
    thread that ran it."""
    with _settling:
        if batch.has_returned:
            return
        batch.has_returned = True
        settlement = batch.settlement
        if settlement is None:
            if error is None or not is_refused_uncharged(error):
                return
            settlement = batch.settlement = BatchSettlement(batch)
        settlement.end(error)
    if error is None and learned.in_use() and batch.may_begin():  # it was not abandoned
        settlement.teach()


def _settlement_of(batch: OperationBatch, amounts: Amounts) -> BatchSettlement:
    """Return the settlement of `batch`, or a new one. Raise SettlementError if its callback has
    returned, or if `amounts` are a cost and it was charged nothing."""
    if batch.has_returned:
        batch.check_runs(closed=True)
    if batch.spend is None and batch.costs.are_limited and replaced(0, amounts):
        raise SettlementError(
            "the batch was charged nothing, since its estimated cost is zero; set the cost of "
            "its operations, or its watcher's batch_cost, to the most that it may cost"
        )
    if batch.settlement is None:
        batch.settlement = BatchSettlement(batch)
    return batch.settlement


class BatchSettlement:
    """The settlement of one batch. Not thread-safe: callers hold the lock."""

    __slots__ = ("_actual", "_batch", "_excess", "_is_reported", "_whole", "actual", "estimated")

    def __init__(self, batch: OperationBatch) -> None:
        self._batch = batch
        self.estimated = self.actual = batch.batch_cost + batch.cost
        """The charge of the batch, and its actual cost once its callback has returned."""
        self._actual: dict[int, tuple[Operation, AnyCost]] = {}
        """The operations that were settled, with their actual costs, by their identities."""
        self._excess: AnyCost = 0
        """The sum of the amounts by which operations cost more than estimated."""
        self._whole: AnyCost | None = None
        """The actual cost of the batch, if it was settled as a whole."""
        self._is_reported = False
        """Whether any of that was passed on to the limiter."""

    @property
    def operations(self) -> list[tuple[Operation, AnyCost]]:
        """The operations that were settled by themselves, each with its actual cost."""
        return list(self._actual.values()) if self._whole is None else []

    def one(self, operation: Operation, amounts: Amounts, *, own: bool) -> None:
        """Note that `operation` costs these amounts, and what was noted before in dimensions that
        are not among them; at least as much as estimated, unless its `own` attempt says so."""
        if self._whole is not None:
            raise SettlementError(
                "the batch was settled as a whole; settle it as a whole again, with "
                "settle(batch, actual)"
            )
        estimated = operation._cost
        _, before = self._actual.get(id(operation), (operation, estimated))
        actual = replaced(before, amounts)
        if not own:
            actual = greater(actual, estimated)
        self._actual[id(operation)] = operation, actual
        if before > estimated:  # added up again: a difference of floats would keep an error
            self._excess = sum(_excess(*one) for one in self._actual.values())
        elif actual > estimated:
            self._excess = self._excess + _excess(operation, actual)
        else:
            return
        self._report(self.estimated + self._excess)

    def whole(self, amounts: Amounts) -> None:
        """Note that the whole batch costs these amounts, and what was noted before in dimensions
        that are not among them."""
        actual: AnyCost = amounts
        if not isinstance(amounts, NUMBERS):
            actual = replaced(self._noted(), amounts)
        self._whole = actual
        if self._is_reported or actual > self.estimated:
            self._report(actual)

    def end(self, error: BaseException | None) -> None:
        """End the settlement: the callback returned, or raised `error`."""
        if error is not None:
            self._follow(error)
        self.actual = self._noted()
        if self._batch.spend is not None:
            self._batch.spend.settle(self.actual)

    def _noted(self) -> AnyCost:
        """Return the cost of the batch with the actual costs that were noted so far."""
        if self._whole is not None:
            return self._whole
        change: AnyCost = sum(actual - one._cost for one, actual in self._actual.values())
        return _not_negative(self.estimated + change)

    def teach(self) -> None:
        """Update learned costs by this batch."""
        batch, of_batch = self._batch, self._batch.lane.terms.learned_batch_cost
        if self._whole is None:
            for one, actual in list(self._actual.values()):
                self._teach(one, actual)
            return
        operations = [one for one in batch.operations if is_learned(one)]
        estimated = cost_of(operations)
        if of_batch is not None:
            estimated = batch.batch_cost + estimated
        paid = _not_negative(self._whole - (self.estimated - estimated))
        if of_batch is not None:
            of_batch._note(None, _share(paid, batch.batch_cost, estimated))
            batch.costs.learned.add(of_batch, called="batch_cost")
        for one in operations:
            self._teach(one, _share(paid, one._cost, estimated))

    def _teach(self, operation: Operation, actual: AnyCost) -> None:
        kind = learn(operation, actual)
        if kind is not None:
            for learned, dimension in kind.learners():
                self._batch.costs.learned.add(learned, dimension)

    def _follow(self, error: BaseException) -> None:
        """Settle operations that were refused without being charged: they cost nothing."""
        if not is_refused_uncharged(error):
            return
        operations = self._batch.operations
        failed = error.failed if isinstance(error, PartialFailure) else operations
        refused = set(map(id, failed))
        if refused.issuperset(map(id, operations)):
            self._whole = self.estimated * 0
        elif self._whole is None:
            self._actual |= {
                id(one): (one, one._cost * 0) for one in operations if id(one) in refused
            }

    def _report(self, actual: AnyCost) -> None:
        self._is_reported = True
        if self._batch.spend is not None:
            self._batch.spend.settle(actual)


def is_refused_uncharged(error: BaseException) -> bool:
    """Whether `error` means that a datastore refused a call without charging it to its limit."""
    cause = error.cause if isinstance(error, PartialFailure) else error
    return isinstance(cause, Throttled) and not cause.charged


def _excess(operation: Operation, actual: AnyCost) -> AnyCost:
    """Return by how much it costs more than estimated, in each dimension."""
    return greater(actual, operation._cost) - operation._cost


def _share(paid: AnyCost, part: AnyCost, whole: AnyCost) -> AnyCost:
    """Return the share of `paid` that `part` has of `whole`, in each dimension."""
    if isinstance(paid, NUMBERS):
        return paid * part / whole if whole else paid
    return Costs(
        {
            name: one * part.get(name, 0) / whole[name]
            for name, one in paid.items()
            if isinstance(whole, Costs) and isinstance(part, Costs) and whole.get(name, 0)
        }
    )


def _not_negative(cost: AnyCost) -> AnyCost:
    """Return `cost` with negative amounts, which are errors of sums of floats, as zero."""
    if isinstance(cost, NUMBERS):
        return max(0, cost)
    return Costs({name: max(0, one) for name, one in cost.items()})


def _begin_in_child() -> None:
    # The lock may be held by a thread that stayed in the parent.
    global _settling
    _settling = threading.RLock()


begin_in_child(_begin_in_child)
