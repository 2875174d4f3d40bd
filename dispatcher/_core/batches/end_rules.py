"""What becomes of a batch, judged by how its callback ended. Pure.

All of the user's code that has a say in it runs here: strategies, the attributes and the `repr` of
an error. Whatever of it raises, `judge` says what becomes of the batch, so that the books
are changed by a verdict alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatcher._core.queues.batch import OperationBatch
from dispatcher.operation import Operation, attempt_of
from dispatcher.outcomes import PartialFailure, Reject, Retry, Throttled
from limiters._support.validation import optional_seconds, seconds


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
    suspects = batch.operations
    if isinstance(error, PartialFailure):
        suspects, error = _partial(batch, error)
        verdict.error = error
    suspects = [one for one in suspects if id(one) not in batch.requeued]
    if isinstance(error, Reject):
        verdict.failed = suspects
        verdict.logged = error.is_logged
    elif isinstance(error, (Retry, Throttled)):
        if isinstance(error, Retry):
            verdict.delay = seconds("Retry.after", error.after, zero=True)
        else:
            verdict.pause = optional_seconds("Throttled.retry_after", error.retry_after, zero=True)
            verdict.throttled = True
        policy = batch.lane.terms.policy
        for operation in suspects:
            repeat = policy.may_repeat(attempt_of(operation))
            (verdict.again if repeat else verdict.failed).append(operation)
    else:
        verdict.expected = False
        _by_policy(verdict, suspects, error, batch, now, since)


def _partial(batch: OperationBatch, error: PartialFailure) -> tuple[list[Operation], BaseException]:
    failed = set(map(id, error.failed))
    strangers = failed - set(map(id, batch.operations))
    if strangers:
        wrong = ValueError(
            f"PartialFailure named {len(strangers)} operations that are not of this batch; "
            "the whole batch counts as failed"
        )
        wrong.__cause__ = error
        return batch.operations, wrong
    cause = error if error.cause is None else error.cause
    return [one for one in batch.operations if id(one) in failed], cause


def _by_policy(
    verdict: BatchVerdict,
    suspects: list[Operation],
    error: BaseException,
    batch: OperationBatch,
    now: float,
    since: Mapping[int, float],
) -> None:
    """One delay for the whole batch, by its most attempted operation, so that operations of
    one key stay together; each is given up on its own count."""
    policy = batch.lane.terms.policy
    delays: dict[int, float | None] = {}
    for operation in suspects:
        attempt = attempt_of(operation)
        if attempt not in delays:
            elapsed = now - since.get(id(operation), batch.raised_at)
            delays[attempt] = policy.delay(attempt, elapsed, error)
        (verdict.failed if delays[attempt] is None else verdict.again).append(operation)
    verdict.delay = max((d for d in delays.values() if d is not None), default=0.0)
