"""Decides which operations go into which batch now. All rules are here; no thread, no clock.

* Operations leave by rank: higher priority first, then older first.
* A batch is *ripe* when it is full, or when its oldest operation is due (older than the last
  flush). An operation that is not batchable is a full batch of its own.
* The first ripe operation that the budget does not cover ends the plan: no younger operation
  takes budget before it, so it gets what it needs, however much it costs (law C4).
* A batch is opened only when the budget covers what it will gather, or a burst: scarce budget
  makes fewer batches, not smaller ones, apart from what `even_batches` does.
* A batch pays its own cost, in addition to that of its operations, once, when it is opened.
* When the last slot is taken, the batches that are open are still filled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from dispatcher._core.queues.batch import OperationBatch
from dispatcher._core.queues.budget import Budget
from dispatcher._core.queues.lane import Lane, Rank, rank_of
from dispatcher._core.queues.lanes import LaneQueue
from dispatcher.operation import Operation, ticket_of
from limiters._costs import AnyCost


class Slots:
    """How many more batches may be in flight: in all, and of those that need a thread."""

    def __init__(self, total: float = math.inf, threads: float = math.inf) -> None:
        self.total = total
        self.threads = threads

    @property
    def scarce(self) -> bool:
        """Whether it matters who is served first."""
        return self.total < math.inf

    def free(self, lane: Lane) -> bool:
        """Whether one more batch of `lane` may be raised."""
        return self.total >= 1 and (lane.on_loop or self.threads >= 1)

    def take(self, lane: Lane) -> None:
        """Count one more batch of `lane` as raised."""
        self.total -= 1
        if not lane.on_loop:
            self.threads -= 1


@dataclass
class Plan:
    """The batches to raise, in this order, and what prevented more."""

    batches: list[OperationBatch] = field(default_factory=list)
    wanted: AnyCost | None = None
    """The cost that the next batch waits for, if it waits for budget."""
    crowded: bool = False
    """Whether a ripe operation found no slot."""


def plan(queue: LaneQueue, budget: Budget, slots: Slots, due: float) -> Plan:
    """Cut batches from the lanes in `queue`, and change it accordingly.

    Operations with a ticket up to `due` need not wait for their batch to be full.
    """
    return _Planning(queue, budget, slots, due).run()


class _Planning:
    def __init__(self, queue: LaneQueue, budget: Budget, slots: Slots, due: float) -> None:
        self.queue = queue
        self.budget = budget
        self.slots = slots
        self.due = due
        self.plan = Plan()
        self.touched: list[Lane] = []

    def run(self) -> Plan:
        scarce = self.budget.scarce or self.slots.scarce
        while self.plan.wanted is None and (lane := self.queue.pop()) is not None:
            rival = self.queue.first() if scarce else None
            self.touched.append(lane)
            if next_ := self.serve(lane, rival):
                self.queue.push(lane, next_)
            if self.slots.total < 1:
                self.fill_open()
                break
        for lane in dict.fromkeys(self.touched):
            lane.close()
            self.queue.take_over(lane)
        return self.plan

    def serve(self, lane: Lane, rival: Rank | None) -> Operation | None:
        """Take from `lane` until `rival` is first. Return the next operation to be taken, if that
        is why it stopped."""
        batchable = bool(lane.open) or lane.ripe(self.due)
        single = True
        while (head := lane.head(batchable=batchable, single=single)) is not None:
            if rival is not None and rank_of(head) > rival:
                return head
            if head._batchable:
                if not (lane.open or self.open(lane, head)):
                    return None
                if not self.fill(lane, head, rival):
                    return None
                batchable = bool(lane.open) or lane.ripe(self.due)
            elif self.slots.free(lane):
                if not self.raise_single(lane, head):
                    return None
                batchable = bool(lane.open) or lane.ripe(self.due)
            else:
                self.plan.crowded = True
                single = False
        return None

    def open(self, lane: Lane, head: Operation) -> bool:
        if not self.slots.free(lane):
            self.plan.crowded = True
            return False
        full, self.plan.wanted = self.budget.opening(lane, head)
        if self.plan.wanted is not None:
            return False
        self.slots.take(lane)
        lane.open = OperationBatch(lane, ticket_of(head), full)
        self.plan.batches.append(lane.open)
        return True

    def fill(self, lane: Lane, head: Operation, rival: Rank | None) -> bool:
        batch = lane.open
        assert batch is not None
        if rival is None and lane.only_plain:
            room = batch.full - len(batch.operations)
            batch.sequence = min(batch.sequence, ticket_of(head))
            self.budget.draw(lane.plain, int(min(room, len(lane.plain))), batch)
            if lane.plain and len(batch.operations) < batch.full:
                self.plan.wanted = lane.batch_cost + lane.plain[0]._cost
                return False
        elif self.budget.take(head):
            lane.take(head, batch)
        else:  # it opens the next batch
            self.plan.wanted = lane.batch_cost + head._cost
            return False
        if len(batch.operations) >= batch.full:
            lane.close()
        return True

    def raise_single(self, lane: Lane, head: Operation) -> bool:
        if not self.budget.take_single(lane, head):
            self.plan.wanted = lane.batch_cost + head._cost
            return False
        self.slots.take(lane)
        batch = OperationBatch(lane, ticket_of(head))
        lane.take(head, batch)
        self.plan.batches.append(batch)
        return True

    def fill_open(self) -> None:
        """Fill the open batches in order, each from its own lane only: no slot is left."""
        filling = LaneQueue()
        for lane in dict.fromkeys(self.touched):
            if lane.open:
                filling.take_over(lane)
        while self.plan.wanted is None and (first := filling.pop()) is not None:
            if next_ := self.serve(first, filling.first()):
                filling.push(first, next_)
