"""What the callback of a batch says it costs in truth, and what follows for what was charged.

While the callback runs, the limiter learns of it only if it costs more than was charged; all else
it learns in the end. So settling operations one by one costs no more than noting it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dispatcher import learned
from dispatcher.operation import Operation, cost_of, is_learned, learn
from dispatcher.outcomes import PartialFailure, Throttled
from limiters._costs import NUMBERS, AnyCost, Costs, greater
from limiters._support.forking import begin_in_child
from limiters.errors import SettlementError

if TYPE_CHECKING:
    from dispatcher._core.queues.batch import OperationBatch


_settling = threading.RLock()
"""For all batches: it is held for a few steps. A signal handler may settle what its own thread was
just settling."""


def settle_one(batch: OperationBatch, operation: Operation, actual: object, *, own: bool) -> None:
    """Note that `operation` of `batch` costs `actual`; no less than estimated, unless the caller is
    known to be of its `own` attempt."""
    checked = batch.costs.actual("actual", actual, operation._cost)
    if not own:
        checked = greater(checked, operation._cost)
    with _settling:
        _settlement_of(batch).one(operation, checked)


def settle_whole(batch: OperationBatch, actual: object) -> None:
    """All of `batch` costs `actual`."""
    estimated = batch.whole_cost
    checked = batch.costs.actual("actual", actual, estimated)
    with _settling:
        _settlement_of(batch).whole(checked, estimated)


def end_of_callback(batch: OperationBatch, error: BaseException | None) -> None:
    """The callback of `batch` returned, or raised `error`: it is settled no more. For the thread
    that ran it."""
    with _settling:
        if error is not None and not batch.has_returned and is_refused_uncharged(error):
            _settlement_of(batch)
        batch.has_returned = True
        settlement = batch.settlement
        if settlement is None or settlement.closed:
            return
        settlement.end(error)
    if error is None and learned.in_use() and batch.may_begin():  # it was not abandoned
        settlement.teach()


def _settlement_of(batch: OperationBatch) -> BatchSettlement:
    """That of `batch`; a new one if there was none, which is closed if it comes too late."""
    if batch.settlement is None:
        batch.settlement = BatchSettlement(batch)
    return batch.settlement


class BatchSettlement:
    """Of one batch. Not thread-safe: used with the lock."""

    __slots__ = ("_actual", "_batch", "_excess", "_said", "_whole", "closed")

    def __init__(self, batch: OperationBatch) -> None:
        self._batch = batch
        self._actual: dict[int, tuple[Operation, AnyCost]] = {}
        """By the identity of operations, what they cost."""
        self._excess: AnyCost = 0
        """What operations cost beyond the estimate, all together."""
        self._whole: AnyCost | None = None
        """What the batch costs, if that was said of all of it."""
        self._said = False
        """Whether the limiter has learned of any of that."""
        self.closed = batch.has_returned

    @property
    def estimated(self) -> AnyCost:
        """What the batch was charged."""
        return self._batch.whole_cost

    @property
    def actual(self) -> AnyCost:
        """What it costs, as far as was said."""
        if self._whole is not None:
            return self._whole
        change: AnyCost = sum(actual - one._cost for one, actual in self._actual.values())
        return _not_negative(self.estimated + change)

    @property
    def operations(self) -> list[tuple[Operation, AnyCost]]:
        """Those that were settled by themselves, and what each of them costs."""
        return list(self._actual.values()) if self._whole is None else []

    def one(self, operation: Operation, actual: AnyCost) -> None:
        """`operation` costs `actual`."""
        self._check_open(actual)
        if self._whole is not None:
            raise SettlementError(
                "the batch was settled as a whole; settle it as a whole again, with "
                "settle(batch, actual)"
            )
        estimated = operation._cost
        _, before = self._actual.get(id(operation), (operation, estimated))
        self._actual[id(operation)] = operation, actual
        if before > estimated:  # not by a difference: a sum of floats has lost what is small
            self._excess = sum(_excess(*one) for one in self._actual.values())
        elif actual > estimated:
            self._excess = self._excess + _excess(operation, actual)
        else:
            return
        self._say(self.estimated + self._excess)

    def whole(self, actual: AnyCost, estimated: AnyCost) -> None:
        """All of it, which was charged what was estimated, costs `actual`."""
        self._check_open(actual)
        self._whole = actual
        if self._said or actual > estimated:
            self._say(actual)

    def end(self, error: BaseException | None) -> None:
        """The callback returned, or raised `error`; it is settled no more."""
        if error is not None:
            self._follow(error)
        self.closed = True
        if self._whole is not None or self._actual:
            self._say(self.actual)

    def teach(self) -> None:
        """Those whose cost is learned learn from this batch."""
        if self._whole is None:
            for one, actual in list(self._actual.values()):
                self._teach(one, actual)
            return
        batch, of_batch = self._batch, self._batch.lane.terms.learned_batch_cost
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
        """What was refused without being charged costs nothing."""
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

    def _say(self, actual: AnyCost) -> None:
        self._said = True
        if self._batch.spend is not None:
            self._batch.spend.settle(actual)

    def _check_open(self, actual: AnyCost) -> None:
        if self.closed:
            self._batch.check_runs(closed=True)
        if actual and self._batch.spend is None and self._batch.costs.are_limited:
            raise SettlementError(
                "the batch was estimated to cost nothing, and so was charged nothing; give its "
                "operations, or its watcher's batch_cost, what it may cost at most"
            )


def is_refused_uncharged(error: BaseException) -> bool:
    """Whether it says that a datastore refused a call without charging it to its limit."""
    cause = error.cause if isinstance(error, PartialFailure) else error
    return isinstance(cause, Throttled) and not cause.charged


def _excess(operation: Operation, actual: AnyCost) -> AnyCost:
    """What it costs beyond the estimate, in each dimension."""
    return greater(actual, operation._cost) - operation._cost


def _share(paid: AnyCost, part: AnyCost, whole: AnyCost) -> AnyCost:
    """Of what was paid, as much as a part has of a whole, in each dimension."""
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
    """Without what sums of fractions are off by."""
    if isinstance(cost, NUMBERS):
        return max(0, cost)
    return Costs({name: max(0, one) for name, one in cost.items()})


def _begin_in_child() -> None:
    # The lock may be held by a thread that stayed in the parent.
    global _settling
    _settling = threading.RLock()


begin_in_child(_begin_in_child)
