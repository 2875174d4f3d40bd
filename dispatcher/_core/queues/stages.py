"""The stages of an operation and of a batch, and which may follow which.

The tables are the only place where this is written. `OpenWork` makes every transition; one that is
not in the table raises IllegalTransitionError before anything has changed.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class IllegalTransitionError(RuntimeError):
    """A defect of the engine: it tried to move work to a stage that cannot follow."""


class StageCounts(NamedTuple):
    """What one operation in a stage counts for."""

    waiting: int
    """Of the operations accepted and not in flight, each of which has a place in the buffer."""
    open: int
    """Of the target, by its cost."""
    away: int
    """Of what its lane has handed out and not got back."""


class Stage(enum.Enum):
    """Where an operation is between `enqueue` and its end."""

    WAITING = StageCounts(waiting=1, open=1, away=0), "in its lane"
    IN_FLIGHT = StageCounts(waiting=0, open=1, away=1), "raised"
    RESTING = StageCounts(waiting=1, open=1, away=1), "before it goes back to its lane"
    FAILED = StageCounts(waiting=0, open=0, away=1), "on its way through on_failure"
    DONE = StageCounts(waiting=0, open=0, away=0), "ended"
    ABANDONED = StageCounts(waiting=0, open=0, away=0), "ended without an answer"
    RETURNED = StageCounts(waiting=0, open=0, away=0), "given back by stop()"
    HANDED_OVER = StageCounts(waiting=0, open=0, away=0), "failed, and on_failure has returned"

    def __init__(self, counts: StageCounts, told: str) -> None:
        self.counts = counts
        self.told = told


AFTER: dict[Stage, frozenset[Stage]] = {
    Stage.WAITING: frozenset({Stage.IN_FLIGHT, Stage.FAILED, Stage.RETURNED}),
    Stage.IN_FLIGHT: frozenset({Stage.RESTING, Stage.FAILED, Stage.DONE, Stage.ABANDONED}),
    Stage.RESTING: frozenset({Stage.WAITING, Stage.RETURNED}),
    Stage.FAILED: frozenset({Stage.HANDED_OVER}),
    Stage.DONE: frozenset(),
    Stage.ABANDONED: frozenset(),
    Stage.RETURNED: frozenset(),
    Stage.HANDED_OVER: frozenset(),
}
"""Which stages may follow each. An operation begins at WAITING."""


class BatchState(enum.Enum):
    """A batch ends once: from IN_FLIGHT through ENDING to ENDED, or to ABANDONED, and then its
    callback only returns. While it is ENDING nothing of it can be enqueued by anybody."""

    IN_FLIGHT = enum.auto()
    ENDING = enum.auto()
    ENDED = enum.auto()
    ABANDONED = enum.auto()


BATCH_AFTER: dict[BatchState, frozenset[BatchState]] = {
    # Straight to ENDED: it was not started after all.
    BatchState.IN_FLIGHT: frozenset({BatchState.ENDING, BatchState.ENDED}),
    BatchState.ENDING: frozenset({BatchState.ENDED, BatchState.ABANDONED}),
    BatchState.ENDED: frozenset(),
    BatchState.ABANDONED: frozenset(),
}


def check(source: Stage, target: Stage) -> None:
    """Raises unless `target` may follow `source`."""
    if target not in AFTER[source]:
        raise IllegalTransitionError(f"{target.name} cannot follow {source.name}")


def check_batch(source: BatchState, target: BatchState) -> None:
    """Raises unless `target` may follow `source`."""
    if target not in BATCH_AFTER[source]:
        raise IllegalTransitionError(f"a batch that is {source.name} cannot be {target.name}")
