"""Laws B2 and B3: after any history, the counts are those of the stages, and a transition that is
not in the table changes nothing."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher import Operation, Watcher
from dispatcher._core.open_work import OpenWork
from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.buffer import Buffer
from dispatcher._core.queues.lane import Lane
from dispatcher._core.queues.stages import (
    AFTER,
    BATCH_AFTER,
    BatchState,
    IllegalTransitionError,
    Stage,
)
from tests.crank import ignore

SIZE = 100
OPEN = [stage for stage in Stage if stage.counts.open]
STEPS = ("accept", "start", "take back", "end", "abandon", "move", "illegal", "illegal batch")
steps = st.lists(st.tuples(st.sampled_from(STEPS), st.randoms(use_true_random=False)), max_size=60)


class History:
    """One OpenWork, and the stage of each operation to compare it with."""

    def __init__(self) -> None:
        self.buffer = Buffer(SIZE, lambda: None)
        self.work = OpenWork(self.buffer)
        self.lane = Lane(Watcher(ignore))
        self.stages: dict[Operation, Stage] = {}
        self.batches: list[OperationBatch] = []
        self.ended = [OperationBatch(self.lane, 0)]
        self.work.start(self.ended[0])
        self.work.take_back(self.ended[0])

    def at(self, stage: Stage) -> list[Operation]:
        return [one for one, its in self.stages.items() if its is stage]

    def put(self, operations: list[Operation], stage: Stage) -> None:
        self.stages.update(dict.fromkeys(operations, stage))

    def seen(self) -> tuple[Any, ...]:
        work = self.work
        marks = [(one._where, one._attempts) for one in self.stages]
        counts = (work.read(), work.target, work.waiting, self.lane.away, self.buffer.room)
        states = [one.state for one in (*self.batches, *self.ended)]
        return (*counts, astuple(work.totals), marks, states, dict(work.first_raised))

    def step(self, name: str, random: Any) -> None:
        some = [one for one in self.at(Stage.WAITING) if random.random() < 0.5]
        if name == "accept" and self.work.waiting < SIZE - 5:
            new = [Operation(self.lane.watcher, random.randint(0, 5), None) for _ in range(3)]
            self.buffer.inbox.extend(new)
            self.buffer.take()
            for ticket, one in enumerate(new, len(self.stages)):
                one._where = ticket
            with self.work.changing:
                self.work.accepted(sum(one.cost for one in new), len(new))
            self.put(new, Stage.WAITING)
        elif name == "start" and some:
            batch = OperationBatch(self.lane, 0)
            batch.operations, batch.cost = some, sum(one.cost for one in some)
            self.work.start(batch)
            self.work.leave_buffer(len(some))
            self.batches.append(batch)
            self.put(some, Stage.IN_FLIGHT)
        elif name == "take back" and self.batches:
            batch = self.batches.pop()
            self.work.take_back(batch)
            self.ended.append(batch)
            self.put(batch.operations, Stage.RESTING)
        elif name in ("end", "abandon") and self.batches:
            self.end(self.batches.pop(0), random, others=name)
        elif name == "move":
            source = random.choice([Stage.WAITING, Stage.RESTING, Stage.FAILED])
            target = random.choice(sorted(AFTER[source] - {Stage.IN_FLIGHT}, key=lambda s: s.name))
            moved = [one for one in self.at(source) if random.random() < 0.5]
            self.work.move(moved, source, target, self.lane)
            self.put(moved, target)
        elif name == "illegal":
            self.refuse(random)
        elif name == "illegal batch":
            self.refuse_batch(random)

    def end(self, batch: OperationBatch, random: Any, others: str) -> None:
        parts: list[list[Operation]] = [[], [], []]
        for one in batch.operations:
            random.choice(parts).append(one)
        back, failed, rest = parts
        stage = Stage.DONE if others == "end" else Stage.ABANDONED
        state = BatchState.ENDED if others == "end" else BatchState.ABANDONED
        self.work.ending(batch)
        self.work.end(batch, state, back=back, failed=failed, others=stage)
        self.ended.append(batch)
        for operations, its in ((back, Stage.RESTING), (failed, Stage.FAILED), (rest, stage)):
            self.put(operations, its)

    def refuse(self, random: Any) -> None:
        source = random.choice(list(Stage))
        illegal = sorted(set(Stage) - AFTER[source], key=lambda stage: stage.name)
        before = self.seen()
        with pytest.raises(IllegalTransitionError):
            self.work.move(self.at(source), source, random.choice(illegal), self.lane)
        assert self.seen() == before

    def refuse_batch(self, random: Any) -> None:
        batch, before = random.choice(self.ended), self.seen()
        state = random.choice([BatchState.ENDED, BatchState.ABANDONED])
        with pytest.raises(IllegalTransitionError):
            self.work.ending(batch)
        with pytest.raises(IllegalTransitionError):
            self.work.take_back(batch)
        with pytest.raises(IllegalTransitionError):
            self.work.end(batch, state, back=[], failed=[], others=Stage.DONE)
        assert self.seen() == before

    def check(self) -> None:
        counts = [(stage.counts, one) for one, stage in self.stages.items()]
        waiting = sum(count.waiting for count, _ in counts)
        assert self.work.target == sum(count.open * one.cost for count, one in counts)
        assert self.work.read() == (self.work.target, len(self.batches), waiting)
        assert self.lane.away == sum(count.away for count, _ in counts)
        assert self.buffer.room - self.buffer._debt == SIZE - waiting
        totals = self.work.totals
        assert totals.done == len(self.at(Stage.DONE))
        assert totals.abandoned == len(self.at(Stage.ABANDONED))
        assert totals.returned == len(self.at(Stage.RETURNED))
        assert totals.failed == len(self.at(Stage.FAILED)) + len(self.at(Stage.HANDED_OVER))
        assert set(self.work.first_raised) <= {
            id(one) for one, stage in self.stages.items() if stage in OPEN
        }


@given(steps)
def test_b3_the_counts_are_those_of_the_stages_after_any_history(history: list[Any]) -> None:
    made = History()
    for name, random in history:
        made.step(name, random)
        made.check()


def test_b2_every_stage_is_reached_and_every_history_ends() -> None:
    reached, left = set(), [Stage.WAITING]
    while left:
        stage = left.pop()
        if stage not in reached:
            reached.add(stage)
            left += AFTER[stage]
    assert reached == set(Stage) == set(AFTER)
    assert set(BatchState) == set(BATCH_AFTER)
    for stage in Stage:
        ends = not AFTER[stage] or stage is Stage.FAILED
        assert ends == (not stage.counts.open)
