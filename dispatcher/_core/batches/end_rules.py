"""Decides what happens to each operation of a batch, by how its callback ended. Pure.

All user code that takes part in this runs here: strategies, and the attributes and the `repr` of an
error. If any of it raises, `judge` still returns a verdict, and OpenWork is changed by a verdict
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatcher._core.queues.batch import OperationBatch
from dispatcher._failure_rule import FailureRule, partial
from dispatcher.operation import Operation, attempt_of
from dispatcher.outcomes import PartialFailure, Reject


@dataclass
class BatchVerdict:
    """The result of a batch: each of its operations is done, or in exactly one of these lists."""

    again: list[Operation] = field(default_factory=list)
    """Operations that are raised again after `delay`."""
    requeued: list[Operation] = field(default_factory=list)
    """Operations that the callback itself enqueued again. They are raised after `delay`, too."""
    failed: list[Operation] = field(default_factory=list)
    """Operations that are given up, and handed over with `error`."""
    delay: float = 0.0
    error: BaseException | None = None
    throttled: bool = False
    """Whether the datastore refused the batch, so that the Batcher pauses."""
    pause: float | None = None
    """The length of the pause. None: the one that the Batcher has been given."""
    expected: bool = True
    """Whether the callback itself decided what happens, rather than failed."""
    logged: bool = False
    """Whether the callback has already logged why it failed."""

    @property
    def shown_error(self) -> str:
        """The `repr` of the error, or the name of its class if the `repr` raises."""
        try:
            return repr(self.error)
        except BaseException:
            return type(self.error).__name__


def judge(
    batch: OperationBatch, error: BaseException | None, now: float, since: Mapping[int, float]
) -> BatchVerdict:
    """Return what happens to `batch`, whose callback returned or raised `error`.

    `since` has the times at which operations that are retried were first raised, by identity.
    """
    verdict = BatchVerdict(requeued=list(batch.requeued.values()), error=error)
    if error is None:
        return verdict
    try:
        _judge(verdict, batch, error, now, since)
    except BaseException as wrong:  # sys.exit() must not end a thread of the Batcher
        wrong.__context__ = error
        failed = [one for one in batch.operations if id(one) not in batch.requeued]
        return BatchVerdict(requeued=verdict.requeued, failed=failed, error=wrong, expected=False)
    return verdict


def _judge(
    verdict: BatchVerdict,
    batch: OperationBatch,
    error: BaseException,
    now: float,
    since: Mapping[int, float],
) -> None:
    """Use one delay for the whole batch, the longest, so that operations of one key stay together.
    Decide for each operation by itself whether it is given up."""
    suspects = batch.operations
    if isinstance(error, PartialFailure):
        failed, error = partial(batch.operations, error, "operations")
        suspects = [one for one in batch.operations if id(one) in failed]
        verdict.error = error
    rule = FailureRule(error, batch.lane.terms.policy)
    verdict.delay = rule.after
    verdict.throttled, verdict.pause = rule.throttled, rule.pause
    verdict.expected = rule.expected
    verdict.logged = isinstance(error, Reject) and error.is_logged
    for operation in suspects:
        if id(operation) in batch.requeued:
            continue
        elapsed = now - since.get(id(operation), batch.raised_at)
        delay = rule.delay(attempt_of(operation), elapsed)
        if delay is None:
            verdict.failed.append(operation)
        else:
            verdict.again.append(operation)
            verdict.delay = max(verdict.delay, delay)
