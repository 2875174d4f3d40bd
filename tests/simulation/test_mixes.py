"""V4, V5 and C6: instances that share the limits of an API, with calls of different cost, use
hardly less than one queue for everybody would, and each its part."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from limiters.limits import BoundKind, InFlight, Limits, Rate
from limiters.testing import MixedCalls, SimulatedCluster
from limiters.testing._instance import Call
from tests.simulation.one_queue import Called, starts

INTERVAL, PERIOD = 0.5, 6.0
START = 2 * PERIOD
LASTING = (0.2, 1.0)


@dataclass(frozen=True)
class Mix:
    """What prompts cost in tokens, for an equal part of the instances each; and what the API
    allows."""

    prompts: Sequence[Sequence[int]]
    tokens: int = 9_000

    @property
    def limits(self) -> Limits:
        return Limits(
            requests=Rate(60, per=PERIOD, also=[Rate(10, per=1)]),
            tokens=Rate(self.tokens, per=PERIOD),
            calls=InFlight(20, max_operation_time=10),
        )

    def work_of(self, number: int, seed: int) -> MixedCalls:
        """What an instance has to do."""
        costs: list[dict[str, float]] = [
            {"requests": 1, "tokens": tokens, "calls": 1}
            for tokens in self.prompts[number % len(self.prompts)]
        ]
        return MixedCalls(costs, Random(1_000 * seed + number), lasting=LASTING)


MIXES = {
    "3:1": Mix([[60, 60, 60, 400]]),
    "1:1": Mix([[60, 400]]),
    "halves": Mix([[60], [400]]),
    "example": Mix([[20, 380]], tokens=12_000),
}


def in_turns(works: Sequence[MixedCalls], limits: Limits) -> Iterator[Called]:
    """One call of each instance, again and again: as they come to a single queue."""
    for work in itertools.cycle(works):
        costs, lasts = limits.by_bound(work.piece), work.lasts
        work.went(work.piece, 0.0)
        yield costs, lasts


def used_by_queue(limits: Limits, works: Sequence[MixedCalls], end: float) -> list[float]:
    """The part of each bound that one queue uses, from START to `end`."""
    calls, kept = itertools.tee(in_turns(works, limits))
    spent = [0.0] * len(limits.bounds)
    for at, (costs, _) in zip(starts(limits, calls), kept, strict=True):
        if at >= end:
            break
        if at >= START:
            spent = [before + cost for before, cost in zip(spent, costs, strict=True)]
    return _parts(spent, limits, end)


def used(calls: Sequence[Call], limits: Limits, end: float) -> list[float]:
    """The part of each bound that these use."""
    within = [limits.by_bound(one.cost) for one in calls if START <= one.start < end]
    return _parts([sum(costs) for costs in zip(*within, strict=True)], limits, end)


def _parts(spent: Sequence[float], limits: Limits, end: float) -> list[float]:
    """Of calls in flight, which are not spent in a time, nothing."""
    return [
        0.0
        if bound.kind is BoundKind.SLOTS
        else cost * bound.period / bound.capacity / (end - START)
        for cost, bound in zip(spent, limits.bounds, strict=True)
    ]


def jain(shares: Sequence[float]) -> float:
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


@pytest.mark.parametrize(
    ("name", "count", "seconds"),
    [
        ("1:1", 4, 30),
        ("halves", 4, 30),
        *(
            pytest.param(name, count, 96, marks=pytest.mark.long)
            for name in MIXES
            for count in (4, 12)
        ),
    ],
)
def test_v4_v5_c6_mixed_calls_use_what_one_queue_would(name: str, count: int, seconds: int) -> None:
    mix, end = MIXES[name], START + seconds
    cluster = SimulatedCluster(
        capacity=mix.limits, factor=0.6, seed=1, interval=INTERVAL, drift=0.0002
    )
    for number in range(count):
        cluster.run(number * INTERVAL / count)
        cluster.add(f"i{number}", mix.work_of(number, seed=1))
    cluster.run(START)
    asked = sum(one.calls for one in cluster.instances.values())
    cluster.run(end)
    asked = sum(one.calls for one in cluster.instances.values()) - asked

    by_queue = used_by_queue(mix.limits, [mix.work_of(n, seed=1) for n in range(count)], end)
    binding = by_queue.index(max(by_queue))
    assert used(cluster.calls, mix.limits, end)[binding] >= 0.97 * by_queue[binding]
    own = {who: [one for one in cluster.calls if one.instance == who] for who in cluster.instances}
    assert jain([max(used(calls, mix.limits, end)) for calls in own.values()]) >= 0.99
    served = sum(START <= one.start < end for one in cluster.calls)
    assert asked <= count * seconds / INTERVAL + 2.2 * served
