"""What becomes of each operation of a batch, by how its callback ended. Pure.

All of the user's code that has a say in it runs here: strategies, the attributes and the `repr` of
an error. Whatever of it raises, `judge` says what becomes of the batch, so that OpenWork
is changed by a verdict alone.
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
    """Each operation of the batch is done, or in exactly one of these lists."""

    again: list[Operation] = field(default_factory=list)
    """Raised again after `delay`."""
    requeued: list[Operation] = field(default_factory=list)
    """Enqueued again by the callback itself: raised again, after `delay` like the others."""
    failed: list[Operation] = field(default_factory=list)
    """Given up, and handed over with `error`."""
    delay: float = 0.0
    error: BaseException | None = None
    throttled: bool = False
    """The datastore refused: the Batcher pauses."""
    pause: float | None = None
    """For how long; None: as it usually does."""
    expected: bool = True
    """Whether the callback said what is to happen, rather than go wrong."""
    logged: bool = False
    """Whether the callback has written to the log why it failed."""

    @property
    def said(self) -> str:
        """What the error says; a user's may be unable to."""
        try:
            return repr(self.error)
        except BaseException:
            return type(self.error).__name__


def judge(
    batch: OperationBatch, error: BaseException | None, now: float, since: Mapping[int, float]
) -> BatchVerdict:
    """What becomes of `batch`, whose callback returned or raised `error`.

    `since` says when those that were retried before were raised first, by their identity.
    """
    verdict = BatchVerdict(requeued=list(batch.requeued.values()), error=error)
    if error is None:
        return verdict
    try:
        _judge(verdict, batch, error, now, since)
    except BaseException as wrong:  # as in a callback: sys.exit() ends no thread of the Batcher
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
    """One delay for the whole batch, the longest, so that operations of one key stay together;
    each operation is given up on its own count."""
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
