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
    """The counts to which one operation in a stage contributes."""

    waiting: int
    """1 if it is accepted and not in flight: it has a place in the buffer."""
    open: int
    """1 if its cost is a part of the target."""
    away: int
    """1 if its lane has handed it out and has not got it back."""


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

    def __init__(self, counts: StageCounts, description: str) -> None:
        self.counts = counts
        self.description = description


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
    """A batch ends once: from IN_FLIGHT through ENDING to ENDED, or to ABANDONED; then its callback
    can only return. While a batch is ENDING, none of its operations can be enqueued."""

    IN_FLIGHT = enum.auto()
    ENDING = enum.auto()
    ENDED = enum.auto()
    ABANDONED = enum.auto()


BATCH_AFTER: dict[BatchState, frozenset[BatchState]] = {
    # A batch that could not be started goes directly to ENDED.
    BatchState.IN_FLIGHT: frozenset({BatchState.ENDING, BatchState.ENDED}),
    BatchState.ENDING: frozenset({BatchState.ENDED, BatchState.ABANDONED}),
    BatchState.ENDED: frozenset(),
    BatchState.ABANDONED: frozenset(),
}


def check(source: Stage, target: Stage) -> None:
    """Raise IllegalTransitionError unless `target` may follow `source`."""
    if target not in AFTER[source]:
        raise IllegalTransitionError(f"{target.name} cannot follow {source.name}")


def check_batch(source: BatchState, target: BatchState) -> None:
    """Raise IllegalTransitionError unless `target` may follow `source`."""
    if target not in BATCH_AFTER[source]:
        raise IllegalTransitionError(f"a batch that is {source.name} cannot be {target.name}")
