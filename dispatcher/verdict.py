"""What becomes of a batch, judged by how its callback ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dispatcher.batch import Batch
from dispatcher.operation import Operation
from dispatcher.outcomes import PartialFailure, Reject, Retry, Throttled


@dataclass
class Verdict:
    """Each operation of the batch is done, or in exactly one of these lists."""

    again: list[Operation] = field(default_factory=list)
    """Raised again after `delay`."""
    requeued: list[Operation] = field(default_factory=list)
    """Enqueued again by the callback itself: raised again, after `delay` like the others."""
    failed: list[Operation] = field(default_factory=list)
    """Given up, and handed over with `error`."""
    delay: float = 0.0
    error: BaseException | None = None
    throttled: Throttled | None = None
    """The datastore refused: the Batcher pauses."""
    expected: bool = True
    """Whether the callback said what is to happen, rather than go wrong."""


def judge(
    batch: Batch, error: BaseException | None, now: float, since: Mapping[Operation, float]
) -> Verdict:
    """What becomes of `batch`, whose callback returned or raised `error`.

    `since` says when those that were retried before were raised first.
    """
    verdict = Verdict(requeued=list(batch.requeued), error=error)
    if error is None:
        return verdict
    if isinstance(error, PartialFailure):
        suspects, error = _partial(batch, error)
        verdict.error = error
    else:
        suspects = batch.operations
    requeued = set(verdict.requeued)
    suspects = [one for one in suspects if one not in requeued]
    if isinstance(error, Reject):
        verdict.failed = suspects
    elif isinstance(error, (Retry, Throttled)):
        verdict.throttled = error if isinstance(error, Throttled) else None
        verdict.delay = error.after if isinstance(error, Retry) else 0.0
        policy = batch.lane.watcher.policy
        for operation in suspects:
            repeat = policy.may_repeat(operation.attempt)
            (verdict.again if repeat else verdict.failed).append(operation)
    else:
        verdict.expected = False
        _by_policy(verdict, suspects, error, batch, now, since)
    return verdict


def _partial(batch: Batch, error: PartialFailure) -> tuple[list[Operation], BaseException]:
    failed = set(map(id, error.failed))
    strangers = failed - set(map(id, batch.operations))
    if strangers:
        wrong = ValueError(
            f"PartialFailure named {len(strangers)} operations that are not of this batch; "
            "the whole batch counts as failed"
        )
        wrong.__cause__ = error
        return batch.operations, wrong
    return [one for one in batch.operations if id(one) in failed], error.cause or error


def _by_policy(
    verdict: Verdict,
    suspects: list[Operation],
    error: BaseException,
    batch: Batch,
    now: float,
    since: Mapping[Operation, float],
) -> None:
    """One delay for the whole batch, by its most attempted operation, so that operations of
    one key stay together; each is given up on its own count."""
    policy = batch.lane.watcher.policy
    delays: dict[int, float | None] = {}
    for operation in suspects:
        attempt = operation.attempt
        if attempt not in delays:
            elapsed = now - since.get(operation, batch.raised_at)
            delays[attempt] = policy.delay(attempt, elapsed, error)
        (verdict.failed if delays[attempt] is None else verdict.again).append(operation)
    verdict.delay = max((d for d in delays.values() if d is not None), default=0.0)
