"""Costs that are learned from settlements: a percentile of what operations of a kind have cost.

Memory is bounded. A kind is a histogram of at most `MOST_BUCKETS` buckets whose bounds grow by
`GROWTH`, and of kinds the least recently used one goes. What was settled long ago weighs less and
less, so that costs may change.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from limiters._costs import NUMBERS, AnyCost, Costs, checked_cost
from limiters._support.forking import begin_in_child
from limiters._support.validation import ArgumentError, count, function

GROWTH = 1.05
"""A cost is known to be within this factor."""

MOST_BUCKETS = 256
"""Buckets of one kind and dimension. Those of the smallest costs become one."""

REMEMBERED = 1_000
"""How many settlements of a kind count: each time there are twice as many, all weigh half."""

SETTLED_LEAST = 10
"""Settlements of a kind before anything is learned of it, at least."""


class CostHistogram:
    """How often costs of about the same size have come. Not thread-safe.

    >>> seen = CostHistogram()
    >>> for cost in range(1, 101):
    ...     seen.note(cost)
    >>> 95 <= seen.percentile(95) <= 95 * GROWTH
    True
    """

    __slots__ = ("_buckets", "_weight")

    def __init__(self) -> None:
        self._buckets: dict[int | None, float] = {}
        """By the exponent of their upper bound; None for costs of zero."""
        self._weight = 0.0

    def note(self, cost: float) -> None:
        """One more."""
        bucket = math.ceil(math.log(cost, GROWTH) - 1e-9) if cost > 0 else None
        self._buckets[bucket] = self._buckets.get(bucket, 0.0) + 1
        self._weight += 1
        if self._weight >= 2 * REMEMBERED:
            self._buckets = {at: one / 2 for at, one in self._buckets.items() if one > 1e-3}
            self._weight = math.fsum(self._buckets.values())
        if len(self._buckets) > MOST_BUCKETS:
            first, second = self._ordered()[:2]
            self._buckets[second] += self._buckets.pop(first)

    def percentile(self, percentile: float) -> float:
        """What so many of a hundred cost at most."""
        rank, below = self._weight * percentile / 100, 0.0
        last: int | None = None
        for last in self._ordered():
            below += self._buckets[last]
            if below >= rank * (1 - 1e-12):
                break
        return 0.0 if last is None else GROWTH**last

    def _ordered(self) -> list[int | None]:
        return sorted(self._buckets, key=lambda one: -math.inf if one is None else one)


@dataclass(frozen=True, slots=True)
class LearnedKind:
    """What is known of one kind of operation."""

    kind: Hashable
    estimate: AnyCost
    """What the next operation of this kind is estimated to cost."""
    settled: int
    """How many were settled, since this kind came or came again."""
    cold: bool
    """Whether that is too few: the estimate is the one that it starts with."""


class _Kind:
    __slots__ = ("histograms", "settled")

    def __init__(self) -> None:
        self.histograms: dict[str, CostHistogram] = {}
        self.settled = 0


_in_use = False
_all: weakref.WeakSet[Learned] = weakref.WeakSet()


def in_use() -> bool:
    """Whether any cost is learned in this process: what is settled is looked through only then."""
    return _in_use


class Learned:
    """A cost that is learned: `percentile` of what operations of the same kind have cost.

    * `start`: what an operation costs at most, as far as is known: a number, or a mapping by
      dimension. It counts until enough of a kind were settled (20 for a percentile of 95), and goes
      on counting in dimensions that are not settled.
    * `percentile`: so many of a hundred operations cost no more than estimated. The others count
      in full once they are settled: until the limit fits again, nothing starts.
    * `by`: the kind of an operation, by its payload; it has to be hashable. Without it all are of
      one kind.
    * `kinds`: how many kinds are remembered; the least recently used one is forgotten.

    Give it as the `cost` of operations or of a Worker, and settle each in its callback. The
    estimate is made when the Operation is made. Batches that are settled as a whole teach each of
    their operations its share, in proportion to its estimate. What failed teaches nothing.

    Thread-safe.

    >>> from dispatcher import Batcher, Learned, Operation, Watcher
    >>> cost = Learned(start=4_500, by=lambda prompt: prompt["model"])
    >>> watcher = Watcher(lambda batch: [one.settle(1_000) for one in batch] and None)
    >>> with Batcher() as batcher:
    ...     for _ in range(20):
    ...         batcher.enqueue(Operation(watcher, cost, {"model": "small"}))
    >>> round(cost.estimate({"model": "small"}), -2), cost.estimate({"model": "large"})
    (1000.0, 4500)
    """

    def __init__(
        self,
        start: float | Mapping[str, float],
        *,
        percentile: float = 95.0,
        by: Callable[[Any], Hashable] | None = None,
        kinds: int = 1_000,
    ) -> None:
        if isinstance(percentile, bool) or not (
            isinstance(percentile, NUMBERS) and 0 < percentile <= 100
        ):
            raise ArgumentError("percentile", percentile, "be more than 0 and at most 100")
        global _in_use
        self._start = checked_cost("start", start)
        if not self._start:
            advice = "it counts until enough is known, and has to be what a call may cost at most"
            raise ArgumentError("start", start, "be more than zero", advice)
        self._percentile = percentile
        if by is not None:
            function("by", by)
        self._by = by
        self._most = count("kinds", kinds)
        rare = 1 - percentile / 100
        self._enough = max(SETTLED_LEAST, math.ceil(1 / rare - 1e-9) if rare else REMEMBERED)
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._lock = threading.RLock()  # a signal handler may make an operation, too
        _in_use = True
        _all.add(self)

    @property
    def estimate_at_first(self) -> AnyCost:
        """`start`: what an operation of an unknown kind is estimated to cost."""
        return self._start

    def estimate(self, payload: Any = None) -> AnyCost:
        """What an operation with this payload is estimated to cost."""
        return self.of(payload).estimate

    def of(self, payload: Any) -> KindOfCost:
        """The kind of this payload, with its estimate."""
        kind = None if self._by is None else self._by(payload)
        with self._lock:
            known = self._kinds.get(kind)
            if known is not None:
                self._kinds.move_to_end(kind)
            return KindOfCost(self, kind, self._estimate(known))

    def known(self) -> list[LearnedKind]:
        """What was learned, of the kinds used most recently first."""
        with self._lock:
            return [
                LearnedKind(kind, self._estimate(one), one.settled, self._is_cold(one))
                for kind, one in reversed(self._kinds.items())
            ]

    def learn(self, kind: Hashable, actual: AnyCost) -> None:
        """An operation of this kind has cost `actual`."""
        named = actual.items() if isinstance(actual, Mapping) else (("", actual),)
        with self._lock:
            known = self._kinds.setdefault(kind, _Kind())
            self._kinds.move_to_end(kind)
            while len(self._kinds) > self._most:
                self._kinds.popitem(last=False)
            known.settled += 1
            for dimension, cost in named:
                known.histograms.setdefault(dimension, CostHistogram()).note(cost)

    def _is_cold(self, known: _Kind | None) -> bool:
        return known is None or known.settled < self._enough

    def _estimate(self, known: _Kind | None) -> AnyCost:
        if known is None or self._is_cold(known):
            return self._start
        learned = {name: one.percentile(self._percentile) for name, one in known.histograms.items()}
        if isinstance(self._start, Costs):
            return Costs({**self._start, **learned})
        return learned[""]

    def __repr__(self) -> str:
        return f"Learned(start={self._start!r}, percentile={self._percentile:g})"


class KindOfCost:
    """The cost of one operation: of which kind it is, and its estimate."""

    __slots__ = ("_learned", "estimate", "kind")

    def __init__(self, learned: Learned, kind: Hashable, estimate: AnyCost) -> None:
        self._learned = learned
        self.kind = kind
        self.estimate = estimate

    def learn(self, actual: AnyCost) -> None:
        """It has cost `actual`."""
        self._learned.learn(self.kind, actual)


def _begin_in_child() -> None:
    # A lock may be held by a thread that stayed in the parent.
    for learned in list(_all):
        learned._lock = threading.RLock()


begin_in_child(_begin_in_child)
