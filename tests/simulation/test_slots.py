"""Laws N1 to N5 in virtual time: never one call too many, no slot lost, and slots in use."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest

from limiters import InFlight, Limits, Rate
from limiters.testing import MixedCalls, Network, SimulatedCluster
from tests.simulation.judge import Judgement, Limited, judge_bounds

INTERVAL, LEASE = 0.5, 2.0

GUARD = 0.1
"""Seconds that a charge may count longer than a call may last."""

TURN = 8 * INTERVAL
"""Instances that share fewer slots than they are take turns of this length."""

EVERYWHERE = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2, 3))]


def cluster_of(
    slots: int, longest: float, *, seed: int = 1, strict: bool = True, **options: object
) -> SimulatedCluster:
    """A limit of so many calls, which are abandoned after `longest` seconds."""
    return SimulatedCluster(
        capacity=Limits(calls=InFlight(slots, strict, longest)),
        factor=1,
        seed=seed,
        lease_time=LEASE,
        interval=INTERVAL,
        latest_start=0.0005,
        max_operation_time=longest,
        drift=0.0002,
        **options,  # type: ignore[arg-type]
    )


def add(
    cluster: SimulatedCluster, name: str, shortest: float, longest: float, most: int = 1000
) -> None:
    """An instance with a backlog of calls that take so long."""
    dice = Random(f"{cluster.random.random()} {name}")
    cluster.add(name, MixedCalls([1], dice, lasting=(shortest, longest), most=most))


def fill(cluster: SimulatedCluster, instances: int, shortest: float, longest: float) -> None:
    """So many instances, which do not start at the same moment."""
    for number in range(instances):
        cluster.run(cluster.now + 2 * INTERVAL / instances)
        add(cluster, f"i{number}", shortest, longest)


def judged(
    cluster: SimulatedCluster, slots: int, longest: float, *, lax: bool = False
) -> Judgement:
    """The calls that ran at the start of each."""
    limited = Limited("calls", slots, longest, slots=True, lax=lax)
    lag = LEASE + 0.05
    return judge_bounds([limited], cluster.calls, cluster.in_force, cluster.windows, lag)


def busy(cluster: SimulatedCluster, slots: int, start: float, end: float) -> float:
    """The part of the slots in which a call ran in [start, end)."""
    taken = math.fsum(max(0.0, min(one.end, end) - max(one.start, start)) for one in cluster.calls)
    return taken / slots / (end - start)


def in_flight_at_once(cluster: SimulatedCluster, of: str, number: int) -> float:
    """When so many calls of an instance ran at the same time for the first time."""
    calls = [one for one in cluster.calls if one.instance == of]
    steps = sorted([*((one.start, 1) for one in calls), *((one.end, -1) for one in calls)])
    sums = itertools.accumulate(step for _, step in steps)
    return next(
        (at for (at, _), running in zip(steps, sums, strict=True) if running >= number), math.inf
    )


def waited(cluster: SimulatedCluster, instances: int, end: float) -> float:
    """The longest time that an instance was without a call, up to `end`."""
    longest = 0.0
    for number in range(instances):
        calls = sorted(one[:2] for one in cluster.calls if one.instance == f"i{number}")
        free = 0.0
        for start, until in [*calls, (end, end)]:
            longest, free = max(longest, start - free), max(free, until)
    return longest


def trouble(cluster: SimulatedCluster, random: Random, until: float) -> None:
    """Instances are killed, stopped and cut off at random; each one killed is replaced."""
    made = itertools.count(len(cluster.instances))

    def strike(now: float) -> None:
        name = random.choice(sorted(cluster.instances))
        event = random.random()
        if event < 0.4:
            cluster.kill(name)
            add(cluster, f"i{next(made)}", 0.05, 5)
        elif event < 0.7:
            cluster.hang(name, LEASE * random.choice([0.3, 1.2, 4]))
        else:
            cut = LEASE * random.choice([0.3, 1.2, 4])
            cluster.cut_off(name, cut, replies_only=random.random() < 0.5)
        if now < until:
            cluster.at(now + random.expovariate(2.0), strike)

    cluster.at(cluster.now, strike)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", EVERYWHERE)
def test_n1_n3_never_51_and_all_50_are_free_again(seed: int) -> None:
    longest = 5.0
    network = Network(delay=0.005, lost_requests=0.05, lost_replies=0.05, doubled=0.05, late=0.02)
    cluster = cluster_of(50, longest, seed=seed, network=network)
    fill(cluster, 30, 0.05, longest)
    trouble(cluster, Random(seed), until=16)
    cluster.run(20)
    assert len(cluster.calls) >= 150
    for name in sorted(cluster.instances):
        cluster.kill(name)
    cluster.network = Network()
    killed = cluster.now
    last = max(one.end for one in cluster.calls)
    add(cluster, "heir", longest, longest)
    cluster.run(killed + LEASE + 2 * longest + 3)
    assert judged(cluster, 50, longest).holds
    free = in_flight_at_once(cluster, "heir", 50)
    assert last <= free  # otherwise 51 would have run
    assert free <= killed + LEASE + longest + GUARD + 2 * INTERVAL + 1


@pytest.mark.parametrize("renewed", [0.05, 0.25, 0.45])
def test_n2_slots_of_one_killed_are_free_after_its_lease_and_a_call(renewed: float) -> None:
    longest = 3.0
    cluster = cluster_of(5, longest)
    add(cluster, "i0", longest, longest, most=5)
    cluster.run(4 + renewed)
    cluster.kill("i0")
    add(cluster, "heir", longest, longest)
    cluster.run(4 + LEASE + 3 * longest)
    assert judged(cluster, 5, longest).holds
    free = in_flight_at_once(cluster, "heir", 5)
    killed = 4 + renewed
    assert killed + LEASE - 2 * INTERVAL + longest <= free
    assert free <= killed + LEASE + longest + GUARD + 4 * INTERVAL


def test_n2_a_call_of_any_length_keeps_its_slot_while_its_process_renews_its_lease() -> None:
    cluster = cluster_of(3, 2.0)
    add(cluster, "i0", 15, 15)
    cluster.run(2)
    add(cluster, "i1", 0.1, 0.3)
    cluster.run(30)
    assert judged(cluster, 3, 2.0).holds
    ended = max(one.end for one in cluster.calls[:3])
    heirs = [one.start for one in cluster.calls if one.instance == "i1"]
    assert ended <= min(heirs) <= ended + TURN  # all three were taken, and none was lost
    assert busy(cluster, 3, 2, 30) >= 0.95


@pytest.mark.parametrize("strict", [True, False])
def test_n4_an_abandoned_call_keeps_its_slot_unless_it_is_not_strict(strict: bool) -> None:
    cluster = cluster_of(4, 1.0, strict=strict)
    fill(cluster, 2, 5, 5)
    cluster.run(30)
    assert judged(cluster, 4, 1.0, lax=not strict).holds
    assert judged(cluster, 4, 1.0).holds == strict  # else more of them run than may
    assert busy(cluster, 4, 4, 28) == pytest.approx(1.0 if strict else 5.0, rel=0.06)


BUSY = [
    # slots, instances, shortest and longest call
    pytest.param(50, 30, 0.05, 5, marks=pytest.mark.long),
    (20, 4, 0.2, 1),
    pytest.param(5, 12, 0.05, 1, marks=pytest.mark.long),
    pytest.param(2, 10, 0.05, 0.05, marks=pytest.mark.long),
    pytest.param(2, 10, 6, 6, marks=pytest.mark.long),
    (1, 3, 0.05, 5),
    # Calls of as many turns as there are between those of an instance by the golden ratio.
    pytest.param(1, 3, 32, 32, marks=pytest.mark.long),
    pytest.param(2, 10, 52, 52, marks=pytest.mark.long),
]


@pytest.mark.parametrize(("slots", "instances", "shortest", "longest"), BUSY)
def test_n5_slots_are_busy_and_each_instance_has_a_turn(
    slots: int, instances: int, shortest: float, longest: float
) -> None:
    cluster = cluster_of(slots, longest)
    fill(cluster, instances, shortest, longest)
    # How long an instance may wait: until its turn has come, and a call of another has ended.
    turns = 3 * instances / slots if slots < instances else 1
    most = turns * (TURN + longest)
    end = max(30.0, 2 * most)
    cluster.run(end)
    assert judged(cluster, slots, longest).holds
    assert busy(cluster, slots, 5, end) >= 0.95
    assert waited(cluster, instances, end) <= most
    calls = sum(one.calls for one in cluster.instances.values())
    assert calls <= instances * end / INTERVAL * 1.5


def test_c9_no_call_begins_while_more_than_a_lowered_number_run() -> None:
    cluster = cluster_of(8, 10.0)
    for number, lasting in enumerate((5.0, 5.0, 0.5)):
        cluster.run(cluster.now + INTERVAL / 3)
        add(cluster, f"i{number}", lasting, lasting)
    cluster.run(12)
    cluster.set_capacity(4)
    cluster.run(25)
    calls = cluster.calls
    for call in calls:
        running = sum(one.start <= call.start < one.end for one in calls)
        assert running <= 4 or call.start <= 12 + 2 * INTERVAL + GUARD


@pytest.mark.parametrize("period", [1, 60])
def test_n5_slots_are_busy_although_few_calls_wait_and_a_window_is_long(period: float) -> None:
    """A share of the rate that is worth what waits comes in over the whole window."""
    limits = Limits(requests=Rate(100_000, per=period), calls=InFlight(4, max_operation_time=1))
    cluster = SimulatedCluster(
        capacity=limits, factor=50, seed=1, lease_time=LEASE, interval=INTERVAL
    )
    for number in range(4):
        cluster.run(cluster.now + INTERVAL / 4)
        dice = Random(number)
        call = {"requests": 1, "calls": 1}
        cluster.add(f"i{number}", MixedCalls([call], dice, lasting=(0.05, 0.05), most=30))
    cluster.run(12)
    assert busy(cluster, 4, 3, 12) >= 0.9


@pytest.mark.parametrize("lowered", [5, pytest.param(20, marks=pytest.mark.long)])
def test_c9_n1_fewer_slots_are_followed_and_more_are_used(lowered: int) -> None:
    longest = 2.0
    cluster = cluster_of(50, longest)
    fill(cluster, 10, 0.05, longest)
    cluster.run(8)
    cluster.set_capacity(lowered)
    cluster.run(20)
    assert judged(cluster, 50, longest).holds
    # All calls that ran have ended, and all instances have been notified.
    late = [one for one in cluster.calls if one.start > 8 + 2 * INTERVAL + longest + 0.1]
    limited = Limited("calls", lowered, longest, slots=True)
    assert judge_bounds([limited], late, [[(0.0, lowered)]], [[]], 0.0).holds
    assert busy(cluster, lowered, 13, 20) >= 0.95
    cluster.set_capacity(50)
    cluster.run(34)
    assert judged(cluster, 50, longest).holds
    assert busy(cluster, 50, 20 + 2 * INTERVAL + 0.5, 34) >= 0.95


@pytest.mark.parametrize("seed", EVERYWHERE)
def test_n1_n3_slots_of_an_instance_that_leaves_come_free_as_its_calls_end(seed: int) -> None:
    """Calls may take a minute and take 5 to 8 seconds: the instances that leave renew their leases
    until the last one has ended, with replies that get lost. Not so many that a lease ends
    meanwhile: then its slots are free only when calls may take no longer."""
    slots, longest = 12, 60.0
    network = Network(lost_requests=0.05, lost_replies=0.05, doubled=0.1)
    cluster = cluster_of(slots, longest, seed=seed, network=network)
    for name in ("a", "b", "c"):
        add(cluster, name, 5.0, 8.0, most=4)
    cluster.run(10.0)
    for name in ("a", "b"):
        cluster.leave(name)
    cluster.run(11.0)
    add(cluster, "d", 1.0, 2.0)
    last = max(one.end for one in cluster.calls if one.instance in "ab")
    cluster.run(last + 4 * INTERVAL)
    limit = cluster.server.coordinator.limit
    assert limit is not None
    held = {name: one.holdings[0].units for name, one in limit.records.items()}
    assert held.get("c", 0) + held["d"] + limit.bounds[0].pool == slots
    cluster.run(40.0)
    assert judged(cluster, slots, longest).holds
    assert set(cluster.instances) == {"c", "d"}
    # Half of all are those of "d" when the calls of "c" have ended that it may not repeat.
    assert in_flight_at_once(cluster, "d", slots // 2) <= last + 8.0 + 4 * INTERVAL
