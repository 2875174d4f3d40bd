"""The true cost of a batch, where it is known only after the call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dispatcher.operation import Operation, batch_of
from limiters._support.validation import ArgumentError
from limiters.errors import SettlementError


def settle(batch: Iterable[Operation], actual: float | Mapping[str, float]) -> None:
    """Says what `batch`, as its callback received it, costs in truth, its batch cost included. Call
    it in the callback: once that is known, or several times while an answer streams.

    The last one counts when the callback has returned, in place of what single operations were
    settled to; until then the batch counts for no less than it was charged. Dimensions that
    were never named count as estimated, and so does what is never settled.

    Raises ArgumentError for a cost that is not possible, and for what is no batch; SettlementError
    if these operations are no batch that runs, or of another attempt. Thread-safe.

    >>> from dispatcher import Batcher, Operation, ProvisionedResource, Watcher, settle
    >>> def answer(batch):
    ...     settle(batch, 1_034)  # as the usage in its answer says; 4,500 were expected
    >>> with Batcher(rate_limiter=ProvisionedResource(90_000, period=60)) as batcher:
    ...     batcher.enqueue(Operation(Watcher(answer), 4_500, "How high is the Eiffel tower?"))
    """
    operations = batch if isinstance(batch, list) else _listed(batch)
    if not operations:
        raise SettlementError("an empty batch costs nothing; pass the one that the callback got")
    if not isinstance(operations[0], Operation):
        raise _no_batch(batch)
    batch_of(operations[0]).settle_whole(operations, actual)


class RunningCall:
    """The batch that `operations` are raised in now: to settle them from any thread, as those of
    this attempt."""

    def __init__(self, operations: list[Operation]) -> None:
        self._batch = batch_of(operations[0])

    def settle(self, actual: object) -> None:
        """All of the batch costs `actual`."""
        self._batch.settle_whole(self._batch.handed or [], actual)

    def settle_one(self, operation: Operation, actual: object) -> None:
        """`operation`, which is one of the batch, costs `actual`."""
        self._batch.settle_one(operation, actual, own=True)


def _listed(batch: object) -> list[Operation]:
    if isinstance(batch, Iterable):
        return list(batch)
    raise _no_batch(batch)


def _no_batch(batch: object) -> ArgumentError:
    advice = "one operation is settled by operation.settle(actual)"
    return ArgumentError(
        "batch", batch, "be the list of operations that the callback received", advice
    )
