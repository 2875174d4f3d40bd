"""Costs that are learned from settlements: a percentile of what operations of a kind have cost.

Memory is bounded. A kind is a histogram of at most `MOST_BUCKETS` buckets whose bounds grow by
`GROWTH`, and of kinds the least recently used one goes. What was settled long ago weighs less and
less, so that costs may change.
"""

from __future__ import annotations

import heapq
import math
import threading
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from limiters._costs import NUMBERS, AnyCost, Costs, checked_cost
from limiters._plain_numbers import plain
from limiters._support.forking import begin_in_child
from limiters._support.near_names import did_you_mean
from limiters._support.validation import ArgumentError, count, function

GROWTH = 1.05
"""A cost is known to be within this factor."""

MOST_BUCKETS = 256
"""Buckets of one kind and dimension. Those of the smallest costs become one."""

REMEMBERED = 1_000
"""How many settlements of a kind count: each time there are twice as many, all weigh half."""

SETTLED_LEAST = 10
"""Settlements of a kind before anything is learned of it, at least."""

LEAST_PART = 0.001
"""Of `start`: no estimate is lower. What is estimated at nothing would never wait."""


class CostHistogram:
    """How often costs of about the same size have come. Not thread-safe.

    >>> seen = CostHistogram()
    >>> for cost in range(1, 101):
    ...     seen.note(cost)
    >>> 95 <= seen.percentile(95) <= 95 * GROWTH
    True
    """

    __slots__ = ("_largest", "_weight", "_weights", "noted")

    def __init__(self) -> None:
        self._weights: dict[int, float] = {}
        """How often costs came, by the exponent of the upper bound of their bucket."""
        self._largest: dict[int, float] = {}
        """Of each bucket: no estimate exceeds what an operation has really cost."""
        self._weight = 0.0
        self.noted = 0

    def note(self, cost: float) -> None:
        """A cost of more than zero has come."""
        bucket = math.ceil(math.log(cost, GROWTH) - 1e-9)
        self._weights[bucket] = self._weights.get(bucket, 0.0) + 1
        self._largest[bucket] = max(cost, self._largest.get(bucket, cost))
        self._weight += 1
        self.noted += 1
        if self._weight >= 2 * REMEMBERED:
            self._weights = {at: one / 2 for at, one in self._weights.items() if one > 1e-3}
            self._largest = {at: self._largest[at] for at in self._weights}
            self._weight = math.fsum(self._weights.values())
        if len(self._weights) > MOST_BUCKETS:
            first, second = sorted(self._weights)[:2]
            self._weights[second] += self._weights.pop(first)
            del self._largest[first]

    def percentile(self, percentile: float) -> float:
        """Return a cost that `percentile` of a hundred did not exceed; 0 if none has come."""
        rank, below, largest = self._weight * percentile / 100, 0.0, 0.0
        for bucket in sorted(self._weights):
            largest = self._largest[bucket]
            below += self._weights[bucket]
            if below >= rank * (1 - 1e-12):
                break
        return largest


@dataclass(frozen=True, slots=True)
class LearnedKind:
    """The costs of one kind of operation, as far as they were settled."""

    kind: Hashable
    estimate: AnyCost
    """The estimated cost of the next operation of this kind."""
    settled: int
    """How many were settled, since this kind came or came again."""
    cold: bool
    """Whether that is too few, apart from those that were free: the estimate is the one that it
    starts with."""


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
      dimension, each more than zero. It counts until enough of a kind were settled (20 for a
      percentile of 95), and goes on counting in dimensions that are not settled.
    * `percentile`: so many of a hundred operations cost no more than estimated. The others count
      in full once they are settled: until the limit fits again, nothing starts.
    * `by`: the kind of an operation, by its payload; it has to be hashable. Without it all are of
      one kind.
    * `kinds`: how many kinds are remembered; the least recently used one is forgotten.

    Give it as the `cost` of operations or of a Worker, and settle each in its callback; or as the
    `batch_cost` of a Watcher, and settle the batch. The estimate is made when the Operation is
    made, or the batch. Of a batch that is settled as a whole, the costs that are not learned are
    taken off; the rest teaches those that are learned, in proportion to their estimates. What
    failed teaches nothing, and neither does what was free: an answer from a cache does not say what
    the next one costs. So an estimate is a percentile of what was paid, and never lower than a
    thousandth of `start`.

    Thread-safe.

    >>> from dispatcher import Batcher, Learned, Operation, Watcher
    >>> cost = Learned(start=4_500, by=lambda prompt: prompt["model"])
    >>> watcher = Watcher(lambda batch: [one.settle(1_000) for one in batch] and None)
    >>> with Batcher() as batcher:
    ...     for _ in range(20):
    ...         batcher.enqueue(Operation(watcher, cost, {"model": "small"}))
    >>> cost.estimate({"model": "small"}), cost.estimate({"model": "large"})
    (1000, 4500)
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
        if percentile < 1:
            advice = f"did you mean {plain(100 * percentile)}?"
            raise ArgumentError("percentile", percentile, "be at least 1, of a hundred", advice)
        global _in_use
        self._start = checked_cost("start", start)
        given = start.values() if isinstance(start, Mapping) else [start]
        if not self._start or not all(given):
            advice = "it counts until enough is known, and has to be what a call may cost at most"
            raise ArgumentError("start", start, "be more than zero", advice)
        self._by_dimension = dict(_named(self._start))
        self._percentile = percentile
        if by is not None:
            function("by", by)
        self._by = by
        self._most = count("kinds", kinds)
        rare = 1 - percentile / 100
        self._enough = max(SETTLED_LEAST, math.ceil(1 / rare - 1e-9) if rare else REMEMBERED)
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._lock = threading.RLock()  # a signal handler may make an operation, too
        self._identity = uuid.uuid4().hex
        _in_use = True
        _all.add(self)

    @property
    def estimate_at_first(self) -> AnyCost:
        """`start`: what an operation of an unknown kind is estimated to cost."""
        return self._start

    def estimate(self, payload: Any = None) -> AnyCost:
        """Return the estimated cost of an operation with this payload."""
        return self.of(payload).estimate

    def of(self, payload: Any) -> KindOfCost:
        """The kind of this payload, with its estimate."""
        kind = None if self._by is None else self._by(payload)
        with self._lock:
            try:
                known = self._kinds.get(kind)
            except TypeError:
                raise ArgumentError("by", kind, "return the kind, which is hashable") from None
            if known is not None:
                self._kinds.move_to_end(kind)
            return KindOfCost(self, kind, self._estimate(known), learned=not self._is_cold(known))

    def known(self) -> list[LearnedKind]:
        """Return all kinds, the one used last first."""
        with self._lock:
            return [
                LearnedKind(kind, self._estimate(one), one.settled, self._is_cold(one))
                for kind, one in reversed(self._kinds.items())
            ]

    def _most_settled(self, most: int) -> list[tuple[Hashable, int, dict[str, float], set[str]]]:
        """Return the kinds that were settled most often, at most so many: the kind, how often, its
        estimate by dimension, and the dimensions that are still cold."""
        with self._lock:
            kinds = heapq.nlargest(most, self._kinds.items(), key=lambda one: one[1].settled)
            return [
                (
                    kind,
                    one.settled,
                    self._by_dimension | (learned := self._warm(one)),
                    self._by_dimension.keys() - learned.keys(),
                )
                for kind, one in kinds
            ]

    def learn(self, kind: Hashable, actual: float | Mapping[str, float]) -> None:
        """An operation of this kind has cost `actual`: settlements say so by themselves.

        ArgumentError if that is no possible cost, or of a dimension that `start` does not have;
        then nothing is learned.
        """
        checked = checked_cost("actual", actual)
        if isinstance(self._start, Costs) and not isinstance(checked, Costs) and checked:
            raise ArgumentError("actual", actual, f"be by dimension, as start={self._shown()} is")
        unknown = [name for name, _ in _named(checked) if name not in self._by_dimension]
        if unknown:
            requirement = f"be of the dimensions of start={self._shown()} alone"
            advice = did_you_mean(unknown[0], self._by_dimension)
            raise ArgumentError("actual", actual, requirement, advice)
        try:
            hash(kind)
        except TypeError:
            raise ArgumentError("kind", kind, "be hashable", "as a text is, or a tuple") from None
        self._note(kind, checked)

    def _note(self, kind: Hashable, actual: AnyCost) -> None:
        """An operation of this kind was settled to `actual`, a cost as its limiter adds it up: that
        is a number where there is one dimension, also if `start` names it. Of other dimensions than
        those of `start` nothing is learned."""
        paid = {name: one for name, one in self._in_dimensions(actual) if one > 0}
        with self._lock:
            known = self._kinds.setdefault(kind, _Kind())
            self._kinds.move_to_end(kind)
            while len(self._kinds) > self._most:
                self._kinds.popitem(last=False)
            known.settled += 1
            for dimension, cost in paid.items():
                known.histograms.setdefault(dimension, CostHistogram()).note(cost)

    def _in_dimensions(self, actual: AnyCost) -> Iterator[tuple[str, float]]:
        only = next(iter(self._by_dimension)) if len(self._by_dimension) == 1 else None
        for name, one in _named(actual):
            if name in self._by_dimension:
                yield name, one
            elif only is not None and "" in (name, only):
                yield only, one

    def _is_cold(self, known: _Kind | None) -> bool:
        """Whether all of it is estimated at `start`."""
        return known is None or all(one.noted < self._enough for one in known.histograms.values())

    def _estimate(self, known: _Kind | None) -> AnyCost:
        if known is None or self._is_cold(known):
            return self._start
        learned = self._warm(known)
        if isinstance(self._start, Costs):
            return Costs({**self._start, **learned})
        return learned[""]

    def _warm(self, known: _Kind) -> dict[str, float]:
        """The estimates that are learned, by dimension."""
        return {
            name: max(one.percentile(self._percentile), self._by_dimension[name] * LEAST_PART)
            for name, one in known.histograms.items()
            if one.noted >= self._enough
        }

    def _shown(self) -> str:
        return repr(dict(self._start)) if isinstance(self._start, Costs) else plain(self._start)

    def __reduce__(self) -> tuple[Any, ...]:
        _received.setdefault(self._identity, self)
        _forget_some()
        arguments = self._start, self._percentile, self._by, self._most
        return _receive, (self._identity, *arguments)

    def __repr__(self) -> str:
        return f"Learned(start={self._start!r}, percentile={self._percentile:g})"


class KindOfCost:
    """The cost of one operation: of which kind it is, and its estimate."""

    __slots__ = ("_costs", "estimate", "is_learned", "kind")

    def __init__(self, costs: Learned, kind: Hashable, estimate: AnyCost, *, learned: bool) -> None:
        self._costs = costs
        self.kind = kind
        self.estimate = estimate
        self.is_learned = learned
        """Whether the estimate was learned, rather than given as `start`."""

    def learn(self, actual: AnyCost) -> None:
        """It was settled to `actual`."""
        self._costs._note(self.kind, actual)

    def learners(self) -> Iterable[tuple[Learned, str]]:
        """Return the costs that learn from it, each with its dimension if it does not know that."""
        return ((self._costs, ""),)


def _named(cost: AnyCost) -> Iterable[tuple[str, float]]:
    """A cost by dimension; the one of a number has no name."""
    return cost.items() if isinstance(cost, Costs) else (("", cost),)


MOST_RECEIVED = 100
"""Learned costs of other processes that a process remembers."""

_received: OrderedDict[str, Learned] = OrderedDict()
"""By identity, so that all that is sent to a process with one of them learns together there."""


def _receive(
    identity: str,
    start: AnyCost,
    percentile: float,
    by: Callable[[Any], Hashable] | None,
    kinds: int,
) -> Learned:
    """The learned cost of another process, as it is in this one: what was learned there is not
    sent along."""
    known = _received.get(identity)
    if known is None:
        known = Learned(start, percentile=percentile, by=by, kinds=kinds)
        known._identity = identity
        known = _received.setdefault(identity, known)
        _forget_some()
    return known


def _forget_some() -> None:
    while len(_received) > MOST_RECEIVED:
        _received.popitem(last=False)


def _begin_in_child() -> None:
    # A lock may be held by a thread that stayed in the parent.
    for learned in list(_all):
        learned._lock = threading.RLock()


begin_in_child(_begin_in_child)
