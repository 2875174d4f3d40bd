"""V4, V5 and C6: instances that share the limits of an API, with calls of different cost, use
hardly less than one queue for all would, and each instance gets its part."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import pytest

from limiters.leases._coordinator import division, permits, state
from limiters.leases._coordinator.state import Limit, Record
from limiters.limits import BoundKind, InFlight, Limits, Rate
from limiters.testing import MixedCalls, SimulatedCluster
from limiters.testing._instance import Call
from tests.simulation.one_queue import Called, starts

INTERVAL, PERIOD = 0.5, 6.0
START = 2 * PERIOD
LASTING = (0.2, 1.0)


@dataclass(frozen=True)
class Mix:
    """The tokens of prompts, for an equal part of the instances each; and the limits of the API."""

    prompts: Sequence[Sequence[int]]
    tokens: int = 9_000
    times: int = 1

    @property
    def limits(self) -> Limits:
        return Limits(
            requests=Rate(60 * self.times, per=PERIOD, also=[Rate(10 * self.times, per=1)]),
            tokens=Rate(self.tokens * self.times, per=PERIOD),
            calls=InFlight(20 * self.times, max_operation_time=10),
        )

    def work_of(self, number: int, seed: int) -> MixedCalls:
        """Return the work of an instance."""
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
    "forty a second": Mix([[60, 400]], times=4),
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


@dataclass(frozen=True)
class Result:
    """Results of the instances from START on."""

    used: float
    """Of the bound that binds, as a part of what one queue uses."""
    fairness: float
    """Jain's index of dominant shares."""
    served: int
    asked: int
    permits: int


def compared(name: str, count: int, seconds: float) -> Result:
    """Return the result of so many instances with an endless backlog, compared with one queue."""
    mix, end = MIXES[name], START + seconds
    cluster = SimulatedCluster(
        capacity=mix.limits, factor=0.6, seed=1, interval=INTERVAL, drift=0.0002
    )
    for number in range(count):
        cluster.run(number * INTERVAL / count)
        cluster.add(f"i{number}", mix.work_of(number, seed=1))
    instances = list(cluster.instances.values())
    cluster.run(START)
    asked = sum(one.calls for one in instances)
    granted = sum(one.share.permits for one in instances)
    cluster.run(end)
    by_queue = used_by_queue(mix.limits, [mix.work_of(n, seed=1) for n in range(count)], end)
    binding = by_queue.index(max(by_queue))
    own = [[call for call in cluster.calls if call.instance == one.name] for one in instances]
    return Result(
        used=used(cluster.calls, mix.limits, end)[binding] / by_queue[binding],
        fairness=jain([max(used(calls, mix.limits, end)) for calls in own]),
        served=sum(START <= call.start < end for call in cluster.calls),
        asked=sum(one.calls for one in instances) - asked,
        permits=sum(one.share.permits for one in instances) - granted,
    )


@pytest.mark.parametrize(
    ("name", "count", "seconds"),
    [
        ("halves", 4, 30),
        pytest.param("1:1", 4, 30, marks=pytest.mark.long),
        *(
            pytest.param(name, count, 96, marks=pytest.mark.long)
            for name in ("3:1", "1:1", "halves", "example")
            for count in (4, 12)
        ),
    ],
)
def test_v4_v5_c6_mixed_calls_use_what_one_queue_would(name: str, count: int, seconds: int) -> None:
    result = compared(name, count, seconds)
    assert result.used >= 0.97
    assert result.fairness >= 0.99
    assert result.asked <= count * seconds / INTERVAL + 2.2 * result.served


@pytest.mark.long
def test_v4_v5_c6_shares_of_several_bounds_serve_many_mixed_calls() -> None:
    result = compared("forty a second", 4, 24)
    assert result.permits <= 0.05 * result.served
    assert result.used >= 0.97
    assert result.fairness >= 0.99
    assert result.asked <= 4 * 24 / INTERVAL + 2.2 * result.permits + 4


# Mistakes on purpose.


def shares_of_few_batches(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(state, "FEW_A_SECOND", 0)


def charged_by_the_largest_part_of_each_batch(patch: pytest.MonkeyPatch) -> None:
    def time_for(limit: Limit, record: Record, costs: Sequence[float]) -> float:
        fair = permits.entitlement(limit, record)
        return max(
            cost * bound.terms.period / (fair * bound.worth(limit.now))
            for bound, cost in zip(limit.bounds, costs, strict=True)
            if not bound.terms.slots
        )

    patch.setattr(permits, "time_for", time_for)


@pytest.mark.long
@pytest.mark.parametrize(
    "mistake", [shares_of_few_batches, charged_by_the_largest_part_of_each_batch]
)
def test_v4_a_mistake_uses_less(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert compared("3:1", 4, 30).used < 0.95


@pytest.mark.long
def test_v4_without_more_of_what_is_not_short_shares_use_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(division, "EASED", 0.0)
    assert compared("forty a second", 4, 24).used < 0.95
