"""Calls that take several slots each of a shared limit: every instance has its turn (laws V2, C4,
C5, N1, N5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle, islice

import pytest

from limiters import InFlight, Limits, Rate
from limiters._costs import AnyCost, Costs
from limiters.leases._coordinator import slot_rights
from limiters.leases._coordinator.slot_rights import SlotRight
from limiters.leases._coordinator.state import BoundState, Holding, Limit
from limiters.leases._format import LOT_BUCKETS
from limiters.leases._messages import Reply
from limiters.testing import SimulatedCluster, SimulatedInstance
from tests.simulation.judge import Limited, judge_bounds
from tests.simulation.one_queue import starts
from tests.simulation.test_slots import INTERVAL, LEASE, TURN

LASTS = 1.0

WAITS = 1.5
"""An instance waits at most so many times as long as in one queue, first come, first served, where
each call lasts a turn longer; or, if that is longer, as its fair share takes to make up for that
turn."""


class Calls:
    """A backlog of calls that take so many slots, for so many seconds."""

    def __init__(self, slots: int, lasts: float = LASTS) -> None:
        self.piece: AnyCost = Costs({"requests": 1, "calls": slots})
        self.slots, self.lasts = slots, lasts

    def waiting(self, now: float) -> AnyCost:
        return self.piece * 20

    def went(self, cost: AnyCost, now: float) -> None:
        """It never ends."""


class Fleet:
    """Instances that share so many slots, each with a backlog of calls."""

    def __init__(self, slots: int, works: Sequence[Calls], longest: float = 5.0) -> None:
        self.slots, self.works, self.longest = slots, works, longest
        self.limits = Limits(
            requests=Rate(10_000, per=10), calls=InFlight(slots, max_operation_time=longest)
        )
        self.cluster = SimulatedCluster(
            capacity=self.limits, factor=50, seed=1, lease_time=LEASE, interval=INTERVAL
        )
        self.parts: list[str] = []
        """Who held a part of what a call takes, and when."""
        self.cluster.listeners.append(self._heard)
        for number, work in enumerate(works):
            self.cluster.add(f"i{number}", work)
            self.cluster.run(self.cluster.now + INTERVAL / len(works))

    def _heard(self, instance: SimulatedInstance, reply: Reply) -> None:
        slots = self.works[int(instance.name[1:])].slots
        if reply.bounds and reply.bounds[1].units % slots and self.cluster.now > 2 * LEASE:
            self.parts.append(f"{instance.name} at {self.cluster.now}")

    def run(self, until: float) -> Fleet:
        self.cluster.run(until)
        limited = [
            Limited("requests", 10_000, 10.0),
            Limited("calls", self.slots, self.longest, slots=True),
        ]
        one, lag = self.cluster, LEASE + 0.05
        assert judge_bounds(limited, one.calls, one.in_force, one.windows, lag).holds
        return self

    def used(self, start: float) -> list[float]:
        """The slots that each instance has used on average since `start`."""
        end, sums = self.cluster.now, [0.0] * len(self.works)
        for one in self.cluster.calls:
            at = int(one.instance[1:])
            within = max(0.0, min(one.end, end) - max(one.start, start))
            sums[at] += within * self.works[at].slots
        return [one / (end - start) for one in sums]

    def waits(self) -> list[float]:
        """The longest time that each instance was without a call."""
        longest, free = [0.0] * len(self.works), [0.0] * len(self.works)
        calls = [(one.start, one.end, int(one.instance[1:])) for one in self.cluster.calls]
        ends = [(self.cluster.now, math.inf, at) for at in range(len(self.works))]
        for start, end, at in [*sorted(calls), *ends]:
            longest[at] = max(longest[at], start - free[at])
            free[at] = max(free[at], end)
        return longest

    def queued(self) -> float:
        """The longest time between two calls of an instance in one queue."""
        calls = [(self.limits.by_bound(one.piece), one.lasts + TURN) for one in self.works]
        count = len(calls)
        times = list(islice(starts(self.limits, cycle(calls)), 20 * count))
        return max(after - before for before, after in zip(times, times[count:], strict=False))


SMALL = (6, [4, 1, 1], 5.4)

CROWDS = [
    # slots; how many a call of each instance takes; how many are in use, at least
    SMALL,
    (5, [3] * 4, 2.7),
    (5, [5] * 2, 4.5),
    (20, [10] * 6, 18),
    (20, [10] * 2 + [1] * 8, 18),
    # A call takes all slots, and others take several.
    pytest.param(20, [20] + [3] * 5, 16, marks=pytest.mark.long),
    pytest.param(100, [60] + [3] * 10, 90, marks=pytest.mark.long),
    pytest.param(100, [10] * 30, 90, marks=pytest.mark.long),
    pytest.param(20, [10] + [1] * 40, 18, marks=pytest.mark.long),
    pytest.param(6, [2, 3, 4], 5, marks=pytest.mark.long),
    # More than half of all slots, and less than a share of them.
    pytest.param(11, [10, 1], 8.5, marks=pytest.mark.long),
    pytest.param(10, [4, 1], 9, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("slots", "takes", "busy"), CROWDS)
def test_c4_n5_calls_of_several_slots_have_their_turns(
    slots: int, takes: list[int], busy: float
) -> None:
    fleet = Fleet(slots, [Calls(one) for one in takes]).run(60 if len(takes) <= 10 else 240)
    used, fair = fleet.used(10), slots / len(takes)
    for waited, one in zip(fleet.waits(), takes, strict=True):
        assert waited <= WAITS * max(fleet.queued(), one * (TURN + LASTS) / fair)
    assert sum(used) >= busy
    assert all(one >= 0.45 * busy / len(takes) for one in used), used
    assert fleet.parts == []


def test_c5_slots_are_shared_by_time_also_where_some_calls_last_long() -> None:
    """Calls of ten slots that last five turns: they are followed by as long a rest."""
    takes = [Calls(10, 20.0), *(Calls(1, 2.0) for _ in range(4))]
    fleet = Fleet(20, takes, longest=20.0).run(240)
    large, *small = fleet.used(10)
    assert large == pytest.approx(4, rel=0.35)
    assert all(one == pytest.approx(4, rel=0.2) for one in small)


def test_v2_one_that_is_killed_while_its_slots_come_together_takes_none_along() -> None:
    fleet = Fleet(20, [Calls(20), *(Calls(1) for _ in range(4))])
    cluster = fleet.cluster

    def held(now: float) -> None:
        limit = cluster.server.coordinator.limit
        assert limit is not None
        one = limit.records["i0"].holdings[1]
        if one.units == 0 and 5 <= limit.bounds[1].pool < 20:
            cluster.kill("i0")
        else:
            cluster.at(now + 0.01, held)

    cluster.at(10.0, held)
    cluster.run(40)
    assert "i0" not in cluster.instances
    killed = max(one.end for one in cluster.calls if one.instance == "i0")
    assert killed < 35
    fleet.run(60)
    assert sum(fleet.used(45)) >= 0.95 * 20


def test_c9_n1_turns_that_take_more_slots_than_there_are_from_now_on_are_over() -> None:
    fleet = Fleet(10, [Calls(5) for _ in range(4)])
    cluster = fleet.cluster

    def lower(now: float) -> None:
        limit = cluster.server.coordinator.limit
        assert limit is not None
        turns = [one.holdings[1].served_at for one in limit.records.values()]
        if sum(limit.now - 1500 < at for at in turns) < 2:
            cluster.at(now + 0.1, lower)  # two turns have to be under way for long
        else:
            cluster.set_capacity([0.0, 5.0])

    cluster.at(10.0, lower)
    fleet.run(40)
    lowered = next(at for at, slots in cluster.in_force[1] if slots == 5)
    late = [one for one in cluster.calls if one.start > lowered + 2 * INTERVAL + LASTS]
    limited = Limited("calls", 5, fleet.longest, slots=True)
    assert judge_bounds([limited], late, [[(0.0, 5)]], [[]], 0.0).holds
    assert len(late) >= 15


def no_turns(patch: pytest.MonkeyPatch) -> None:
    """No instance that waits has its turn."""
    patch.setattr(slot_rights, "line_of", lambda late, arrival, epoch: LOT_BUCKETS)


def nobody_yields(patch: pytest.MonkeyPatch) -> None:
    """The others keep their shares in the turn of one."""
    spread = slot_rights._spread_turns

    def unyielding(limit: Limit, bound: BoundState) -> None:
        spread(limit, bound)
        bound.keeps = bound.scale = 1.0

    patch.setattr(slot_rights, "_spread_turns", unyielding)


def one_batch_too_many(patch: pytest.MonkeyPatch) -> None:
    """A turn is two batches more."""
    with_turn = SlotRight.with_turn

    def generous(right: SlotRight, limit: object, bound: BoundState, one: Holding) -> int:
        units = with_turn(right, limit, bound, one)  # type: ignore[arg-type]
        return units + right.piece if units > right.whole and right.piece > 1 else units

    patch.setattr(SlotRight, "with_turn", generous)


def parts_are_granted(patch: pytest.MonkeyPatch) -> None:
    """An instance collects the slots of a batch one by one."""

    def greedy(bound: BoundState, one: Holding, right: SlotRight, units: int) -> int:
        return min(units - one.units, bound.pool)

    patch.setattr(slot_rights, "granted", greedy)


@pytest.mark.parametrize("mutant", [no_turns, nobody_yields, one_batch_too_many, parts_are_granted])
def test_a_mistake_in_turns_is_found(mutant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(mutant)
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        test_c4_n5_calls_of_several_slots_have_their_turns(*SMALL)
