"""Watch: notes of what a Batcher does not keep, made as it happens and sorted later.

On the engine's thread a batch costs two short notes. They are sorted into distributions at a
scrape, or by the engine itself when there are many: sorting many together takes a fraction of
the time that it would take one by one, between other work.
"""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dispatcher._core.queues.batch import OperationBatch
from dispatcher.metrics import _names as names
from dispatcher.metrics._kinds.arrivals import ArrivalTimes
from dispatcher.metrics.parts import ExemplarOf, Options
from dispatcher.metrics.readings import Exemplar
from dispatcher.operation import Operation, ticket_of
from limiters._costs import AnyCost, Costs
from limiters._stats.histogram import Histogram

_log = logging.getLogger("dispatcher.metrics")

MOST_NOTES = 64
"""The engine sorts notes itself when there are more: that takes some fifty microseconds."""

LONGEST_EXEMPLAR = 128
"""Characters of names and values together, as OpenMetrics has it."""


@dataclass
class SettledCosts:
    """Batches that were settled, in one dimension."""

    estimated: float = 0.0
    actual: float = 0.0
    ratio: Histogram = field(default_factory=lambda: Histogram(names.SETTLED_RATIO.bounds))

    def note(self, estimated: float, actual: float) -> None:
        """A batch was settled."""
        self.estimated += estimated
        self.actual += actual
        if estimated:
            self.ratio.note(actual / estimated)

    def copy(self) -> SettledCosts:
        """Return a copy that no further batch changes."""
        return SettledCosts(self.estimated, self.actual, self.ratio.copy())


@dataclass
class BatchesSeen:
    """Distributions of the batches of one Batcher."""

    size: Histogram
    costs: dict[tuple[str, ...], Histogram]
    """Costs by dimension; () is the key where costs are numbers."""
    wait: Histogram
    callback: Histogram
    exemplars: dict[int, Exemplar] = field(default_factory=dict)
    """Of `callback`, by bucket."""
    settled: dict[tuple[str, ...], SettledCosts] = field(default_factory=dict)
    """By dimension, as costs; empty as long as nothing was settled."""

    def copy(self) -> BatchesSeen:
        """Return a copy that no further batch changes."""
        return BatchesSeen(
            self.size.copy(),
            {dimension: costs.copy() for dimension, costs in self.costs.items()},
            self.wait.copy(),
            self.callback.copy(),
            dict(self.exemplars),
            {dimension: settled.copy() for dimension, settled in self.settled.items()},
        )


class Watch:
    """The Observer of a Batcher. Its methods are called on the engine's thread, `read` on any."""

    def __init__(self, options: Options, dimensions: Sequence[str] = ()) -> None:
        """`dimensions`: of the limit, if it has several."""
        bounds = options.cost_bounds or names.BATCH_COST.bounds
        labels: list[tuple[str, ...]] = [(name,) for name in dimensions]
        self._seen = BatchesSeen(
            Histogram(names.BATCH_SIZE.bounds),
            {one: Histogram(bounds) for one in labels or [()]},
            Histogram(names.OPERATION_WAIT.bounds),
            Histogram(names.CALLBACK.bounds),
        )
        self._exemplar = options.exemplar
        self._arrivals = ArrivalTimes()
        self._newest = -1
        self._looked = 0.0
        self._notes: deque[tuple[int, float, float, int, int, AnyCost]] = deque()
        """In the order in which it happened: see `came_in` and `raised`."""
        self._ended: deque[float] = deque()
        self._settled: deque[tuple[AnyCost, AnyCost]] = deque()
        self._sorting = threading.Lock()

    def came_in(self, newest: int, waited: bool, now: float) -> None:
        if newest > self._newest:
            since = self._looked if waited and self._newest >= 0 else now
            self._newest = newest
            self._notes.append((0, now, since, newest, 0, 0.0))
        self._looked = now

    def raised(self, batch: OperationBatch, now: float) -> None:
        operations = batch.operations
        last = ticket_of(operations[-1])
        self._notes.append((len(operations), now, now, batch.sequence, last, batch.whole_cost))

    def returned(self, batch: OperationBatch, seconds: float) -> None:
        self._ended.append(seconds)
        if batch.settlement is not None:
            self._settled.append((batch.settlement.estimated, batch.settlement.actual))
        if self._exemplar is not None and batch.operations:
            self._note_exemplar(self._exemplar, batch.operations, seconds)
        # A scrape may be sorting them now: then little or nothing is left to do.
        if len(self._notes) > MOST_NOTES and self._sorting.acquire(blocking=False):
            try:
                self._sort()
            finally:
                self._sorting.release()

    def read(self) -> BatchesSeen:
        """Sort all notes, and return the distributions. Thread-safe."""
        with self._sorting:
            self._sort()
            return self._seen.copy()

    def _sort(self) -> None:
        notes, ended, seen = self._notes, self._ended, self._seen
        # Lengths are taken first: notes may be added meanwhile.
        sizes: Counter[float] = Counter()
        costs: Counter[AnyCost] = Counter()
        at, spread = self._arrivals.at, seen.wait.note_spread
        for _ in range(len(notes)):
            count, now, since, oldest, last, cost = notes.popleft()
            if not count:
                self._arrivals.note(oldest, since, now)
                continue
            sizes[count] += 1
            costs[cost] += 1
            # Those between the oldest and the last have come in between, more or less evenly.
            longest, shortest = now - at(oldest, now), now - at(last, now)
            spread(shortest if shortest < longest else longest, longest, count)
        seen.size.note_counted(sizes)
        for dimension, histogram in seen.costs.items():
            histogram.note_counted(_in(dimension, costs))
        for _ in range(len(self._settled)):
            estimated, actual = self._settled.popleft()
            for dimension in seen.costs:
                settled = seen.settled.setdefault(dimension, SettledCosts())
                settled.note(_amount(dimension, estimated), _amount(dimension, actual))
        seen.callback.note_all([ended.popleft() for _ in range(len(ended))])

    def _note_exemplar(
        self, exemplar: ExemplarOf, operations: list[Operation], seconds: float
    ) -> None:
        try:
            labels = {str(name): str(value) for name, value in exemplar(operations).items()}
        except Exception:
            facts = {"happening": "exemplar-raised"}
            _log.exception("exemplar raised, and is not called again: %r", exemplar, extra=facts)
            self._exemplar = None
            return
        if sum(map(len, (*labels, *labels.values()))) <= LONGEST_EXEMPLAR:
            bucket = bisect_left(self._seen.callback.bounds, seconds)
            with self._sorting:
                self._seen.exemplars[bucket] = (labels, seconds, time.time())


def _amount(dimension: tuple[str, ...], cost: AnyCost) -> float:
    """How much of `dimension` is in `cost`."""
    if not dimension:
        return float(cost)
    return cost.amount(*dimension) if isinstance(cost, Costs) else 0.0


def _in(dimension: tuple[str, ...], costs: Mapping[AnyCost, int]) -> Mapping[float, int]:
    """Return how often each amount of `dimension` is in `costs`."""
    if not dimension:
        return costs
    found: Counter[float] = Counter()
    for cost, count in costs.items():
        found[_amount(dimension, cost)] += count
    return found
