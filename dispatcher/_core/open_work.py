"""The books: what is accepted and has not ended, in a form that any thread may read."""

from __future__ import annotations

from dataclasses import dataclass

from dispatcher._core.audit import Finding, audit
from dispatcher._core.changing import Changing
from dispatcher._core.queues.batch import BatchState, OperationBatch
from dispatcher._core.queues.buffer import Buffer
from dispatcher.events import AUDIT_FAIL

NEWEST = 0.2
"""What the last callback counts for in how long they took lately."""


@dataclass
class BatcherTotals:
    """What became of operations and batches, counted since the start."""

    done: int = 0
    failed: int = 0
    abandoned: int = 0
    returned: int = 0
    """Operations that stop() gave back."""
    retried: int = 0
    batches: int = 0
    batches_done: int = 0
    batches_failed: int = 0
    batches_abandoned: int = 0
    late: int = 0
    """Results of abandoned batches, which no longer count."""
    throttled: int = 0
    """Refusals of the datastore, as callbacks reported them."""
    pauses: int = 0

    def published(self) -> dict[str, float]:
        """The same, by the names under which a limiter tells others of it."""
        return {
            "operations_done": self.done,
            "operations_failed": self.failed,
            "operations_abandoned": self.abandoned,
            "operations_returned": self.returned,
            "batches_done": self.batches_done,
            "batches_failed": self.batches_failed,
            "batches_abandoned": self.batches_abandoned,
            "throttled": self.throttled,
            "retries": self.retried,
            "pauses": self.pauses,
        }


class OpenWork:
    """Law B3: `target` is the cost of all operations accepted and not ended, always.

    Written by the engine only. What has come in and was not taken in yet still stands in the
    buffer's inbox; both are read at one moment at which the engine changes neither, so that a
    reader takes no lock.
    """

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.changing = Changing()
        """For what changes in more than one step, or together with the inbox."""
        self.target: float = 0
        self.waiting = 0
        """Operations accepted and not in flight, those that rest before a retry included."""
        self.inflight: set[OperationBatch] = set()
        self.totals = BatcherTotals()
        self.callback_seconds: float | None = None
        """How long callbacks took lately, once one has ended."""

    def took(self, seconds: float) -> None:
        """A callback has ended after so long."""
        if self.callback_seconds is None:
            self.callback_seconds = seconds
        else:
            self.callback_seconds += (seconds - self.callback_seconds) * NEWEST

    def read(self) -> tuple[float, int, int]:
        """The target, the batches in flight and the operations waiting, right now."""
        return self.changing.look(self._read)

    def _read(self) -> tuple[float, int, int]:
        cost, count = self._buffer.arrived()
        return self.target + cost, len(self.inflight), self.waiting + count

    def raised(self, batch: OperationBatch) -> None:
        """`batch` is in flight."""
        with self.changing:
            self.inflight.add(batch)
            self.waiting -= len(batch.operations)

    def ending(self, batch: OperationBatch) -> None:
        """From now on the callback of `batch` can enqueue nothing more through it."""
        batch.state = BatchState.ENDING

    def ended(self, batch: OperationBatch, state: BatchState, cost: float, back: int) -> None:
        """`batch` is over: operations of `cost` have ended, `back` others wait again."""
        with self.changing:
            batch.state = state
            self.inflight.discard(batch)
            self.waiting += back
            self._reduce(cost)

    def gone(self, cost: float, count: int) -> None:
        """`count` operations that waited have ended without being raised."""
        with self.changing:
            self.waiting -= count
            self._reduce(cost)

    def audit(self, *, busy: bool) -> Finding:
        """Checks the target while nothing waits, and repairs it."""
        with self.changing:
            counted = sum(batch.cost for batch in self.inflight)
            finding = audit(self.target, counted, busy=busy)
            if finding.event == AUDIT_FAIL:
                self.target = counted
            return finding

    def _reduce(self, cost: float) -> None:
        self.target -= cost
        # Sums of fractions leave crumbs.
        if not self.waiting and not self.inflight:
            self.target = 0
