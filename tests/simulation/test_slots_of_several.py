"""Calls that take several slots each of a shared limit: every instance gets its turn (laws V2, C4,
C5, N1, N5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle, islice

import pytest

from limiters import InFlight, Limits, Rate
from limiters._costs import AnyCost, Costs
from limiters.testing import SimulatedCluster
from tests.simulation.judge import Limited, judge_bounds
from tests.simulation.one_queue import starts

INTERVAL, LEASE = 0.5, 2.0
LONGEST = 5.0
TURN = 8 * INTERVAL


class Calls:
    """A backlog of calls that take so many slots, for so many seconds."""

    def __init__(self, slots: int, lasts: float) -> None:
        self.piece: AnyCost = Costs({"requests": 1, "calls": slots})
        self.lasts = lasts

    def waiting(self, now: float) -> AnyCost:
        return self.piece * 20

    def went(self, cost: AnyCost, now: float) -> None:
        pass


def limits_of(slots: int) -> Limits:
    return Limits(requests=Rate(1000, per=1), calls=InFlight(slots, max_operation_time=LONGEST))


class Fleet:
    """Instances by name, each with calls that take so many slots."""

    def __init__(self, slots: int, pieces: Sequence[int], lasts: float = 0.5) -> None:
        self.slots, self.pieces, self.lasts = slots, pieces, lasts
        self.cluster = SimulatedCluster(
            capacity=limits_of(slots), factor=50, seed=1, lease_time=LEASE, interval=INTERVAL
        )
        for number, piece in enumerate(pieces):
            self.cluster.add(f"i{number}", Calls(piece, lasts))
            self.cluster.run(self.cluster.now + INTERVAL / len(pieces))

    def holds(self) -> bool:
        """Whether no more slots were taken than there are, at any time."""
        limited = [
            Limited("requests", 1000, 1.0),
            Limited("calls", self.slots, LONGEST, slots=True),
        ]
        cluster = self.cluster
        lag = LEASE + 0.05
        return judge_bounds(limited, cluster.calls, cluster.in_force, cluster.windows, lag).holds

    def used(self, start: float) -> list[float]:
        """The slots that each instance has used on average since `start`."""
        end, sums = self.cluster.now, dict.fromkeys(range(len(self.pieces)), 0.0)
        for one in self.cluster.calls:
            within = max(0.0, min(one.end, end) - max(one.start, start))
            sums[int(one.instance[1:])] += within * self.pieces[int(one.instance[1:])]
        return [one / (end - start) for one in sums.values()]

    def waits(self) -> list[float]:
        """The longest time that each instance was without a call."""
        longest, free = [0.0] * len(self.pieces), [0.0] * len(self.pieces)
        calls = [(one.start, one.end, int(one.instance[1:])) for one in self.cluster.calls]
        ends = [(self.cluster.now, math.inf, at) for at in range(len(self.pieces))]
        for start, end, at in [*sorted(calls), *ends]:
            longest[at] = max(longest[at], start - free[at])
            free[at] = max(free[at], end)
        return longest

    def queued(self, lasts: float) -> float:
        """The longest time between two calls of an instance in one queue for everybody, first come,
        first served, whose calls last so long."""
        count = len(self.pieces)
        costs = [(limits_of(self.slots).by_bound(Calls(piece, lasts).piece), lasts)
                 for piece in self.pieces]
        times = list(islice(starts(limits_of(self.slots), cycle(costs)), 20 * count))
        return max(after - before for before, after in zip(times, times[count:], strict=False))


CROWDS = [
    # slots, how many of them a call of each instance takes, and how many are used at most
    (5, [3] * 4, 3),
    (5, [5] * 2, 5),
    (20, [10] * 6, 20),
    (20, [10] * 2 + [1] * 8, 20),
]


@pytest.mark.parametrize(("slots", "pieces", "most"), CROWDS)
def test_c4_n5_calls_of_several_slots_have_their_turns(
    slots: int, pieces: list[int], most: int
) -> None:
    fleet = Fleet(slots, pieces)
    fleet.cluster.run(120)
    used, waits = fleet.used(10), fleet.waits()
    print(used, sum(used) / most, waits, fleet.queued(0.5), fleet.queued(TURN + .5),
          sum(one.calls for one in fleet.cluster.instances.values()) / 120 / len(pieces))
    assert fleet.holds()
    assert min(used) > 0
    assert max(waits) <= 4 * fleet.queued(TURN + fleet.lasts)
    assert sum(used) >= 0.85 * most
