"""The lanes that have something waiting, in the order of their heads."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator

from dispatcher._core.queues.lane import Lane, Rank, rank_of
from dispatcher.operation import Operation, cost_of
from dispatcher.watcher import Watcher, WatcherTerms
from limiters._costs import AnyCost


class LaneQueue:
    """A heap of lanes; a lane is in one queue at a time.

    A lane's head changes while it is queued: the entry of its former head is then stale, and
    is skipped, so that a change costs no search."""

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, Lane]] = []
        self._ties = itertools.count()

    def push(self, lane: Lane, head: Operation | None = None) -> None:
        """Queue `lane` by `head`, one of its operations, or by its present head. A lane with
        nothing ready is left out."""
        head = head or lane.head()
        if head is None:
            lane.queued = None
            return
        rank = rank_of(head)
        if lane.queued is not None and lane.queued[0] == rank:
            return
        entry = (rank, next(self._ties), lane)
        lane.queued = entry
        heapq.heappush(self._heap, entry)

    def take_over(self, lane: Lane) -> None:
        """Queue `lane` here, wherever it was queued before."""
        lane.queued = None
        self.push(lane)

    def pop(self) -> Lane | None:
        """Take out the lane whose head is first."""
        if self.first() is None:
            return None
        lane = heapq.heappop(self._heap)[2]
        lane.queued = None
        return lane

    def first(self) -> Rank | None:
        """Return the rank of the first head."""
        heap = self._heap
        while heap and heap[0][2].queued is not heap[0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None


class Lanes:
    """All lanes with something to remember, and the two queues that the planner serves: one for
    operations that cost something, and one for those that cost nothing and so must not wait for
    budget behind them."""

    def __init__(self, batch_cost: Callable[[WatcherTerms], AnyCost] | None = None) -> None:
        """`batch_cost` returns the cost of a watcher's batches in addition to their operations."""
        self._batch_cost = batch_cost
        self.costly = LaneQueue()
        self.free = LaneQueue()
        self.ready_cost: AnyCost = 0
        """The cost of the operations that wait in lanes. Those that rest before a retry are in
        none."""
        self.paid: dict[Lane, None] = {}
        """The lanes whose batches have a cost of their own."""
        self.learned: dict[Lane, None] = {}
        """The lanes whose batches have a cost that is learned."""
        self._lanes: dict[tuple[int, bool], Lane] = {}
        """The lanes by the identity of their watchers, whose class may define `==` in any way."""

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._lanes.values()))

    @property
    def ready(self) -> bool:
        """Whether anything could be raised, given budget and slots."""
        return self.costly.first() is not None or self.free.first() is not None

    @property
    def missing(self) -> float:
        """How many more operations may matter: they fill a batch, or the first one begins to
        wait."""
        if not self.ready:
            return 1
        return max(1, min(lane.missing for lane in self._lanes.values()))

    def of(self, watcher: Watcher, *, free: bool = False) -> Lane:
        """Return the lane of `watcher`, a new one if it has none."""
        lane = self._lanes.get((id(watcher), free))
        if lane is None:
            cost = 0 if self._batch_cost is None else self._batch_cost(watcher._terms)
            lane = self._lanes[id(watcher), free] = Lane(watcher, cost, free=free)
            if cost:
                self.paid[lane] = None
            if lane.terms.learned_batch_cost is not None:
                self.learned[lane] = None
        return lane

    def estimate_again(self) -> None:
        """Update the batch costs that are learned: planning uses the present estimates."""
        if self._batch_cost is not None:
            for lane in self.learned:
                lane.batch_cost = self._batch_cost(lane.terms)

    def batch_costs(self, most: float = math.inf) -> AnyCost:
        """Return the own cost of the batches that all waiting operations would make, at most
        `most`."""
        batches = sum(lane.batches for lane in self._lanes.values())
        share = min(1.0, most / batches) if batches else 0.0
        return sum(lane.batch_cost * (lane.batches * share) for lane in self.paid)

    def queue(self, lane: Lane) -> None:
        """Queue `lane` by its present head, which may have changed."""
        (self.free if lane.free else self.costly).push(lane)

    def in_order(self) -> list[LaneQueue]:
        """Return the queues that have something ready, in the order of their heads."""
        ready = [queue for queue in (self.costly, self.free) if queue.first() is not None]
        return sorted(ready, key=lambda queue: queue.first() or (0, 0))

    def put_back(self, lane: Lane, operations: list[Operation]) -> None:
        """Let operations that were raised wait again, at the front of their keys."""
        lane.put_back(operations)
        self.ready_cost += cost_of(operations)
        self.queue(lane)

    def withdraw(
        self, lane: Lane, keep: Callable[[Operation], bool] | None = None
    ) -> list[Operation]:
        """Take out the operations that wait in `lane`, except those to be kept."""
        taken = lane.withdraw(keep)
        self.ready_cost -= cost_of(taken)
        self.queue(lane)
        return taken

    def is_idle(self, watcher: Watcher) -> bool:
        """Whether nothing of `watcher` waits or is under way."""
        return all(lane.idle for lane in self._both(watcher))

    def forget_if_idle(self, lane: Lane) -> None:
        """Forget both lanes of a watcher once neither has anything to remember, since watchers are
        short-lived. One of the two may never have had an operation."""
        if not lane.forgettable:
            return
        # A batch that comes back late may belong to a lane that was forgotten long ago.
        lanes = self._both(lane.watcher)
        if all(one.forgettable for one in lanes):
            for one in lanes:
                del self._lanes[id(one.watcher), one.free]
                self.paid.pop(one, None)
                self.learned.pop(one, None)
            lane.watcher._home = None

    def _both(self, watcher: Watcher) -> list[Lane]:
        lanes = (self._lanes.get((id(watcher), free)) for free in (False, True))
        return [lane for lane in lanes if lane is not None]
