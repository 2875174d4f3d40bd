"""C2, C4, C5, C6, C7, C8 and C9 of a shared limit, one by one, in virtual time."""

from __future__ import annotations

import statistics

import pytest

from limiters.testing import Backlog, Dear, SimulatedCluster, Trickle
from limiters.verifier import fairness, verify

CAPACITY = 20_000.0
CERTAIN = 3.1
"""When a new cluster has waited long enough: lease and period."""


def cluster_of(
    count: int, *, seed: int = 1, piece: float = 100, **options: object
) -> SimulatedCluster:
    settings: dict[str, object] = {"capacity": CAPACITY, "factor": 1_000.0, "seed": seed}
    cluster = SimulatedCluster(**(settings | options))  # type: ignore[arg-type]
    for number in range(count):
        cluster.add(f"i{number}", Backlog(piece))
    return cluster


def holds(cluster: SimulatedCluster) -> bool:
    return verify(cluster.log, cluster.limits, settling=2.0).holds


@pytest.mark.parametrize("count", [2, 3, 4, 6, 13, 30])
@pytest.mark.parametrize("seed", range(2))
def test_c5_all_spend_the_same(count: int, seed: int) -> None:
    cluster = cluster_of(count, seed=seed, drift=0.0002)
    span = 5 * max(1, count / 20)
    starts = [8 + number * span for number in range(4)]
    cluster.run(until=starts[-1] + span)
    names = list(cluster.instances)
    found = [fairness(cluster.log, names, start=at, end=at + span) for at in starts]
    # With more instances than partitions, whose turn it is at either end makes a difference.
    assert statistics.mean(found) >= 0.99
    assert min(found) >= (0.99 if count <= 20 else 0.985)
    assert holds(cluster)


@pytest.mark.parametrize("seed", range(3))
def test_c5_a_last_partition_of_less_worth_goes_round_too(seed: int) -> None:
    cluster = cluster_of(3, seed=seed, capacity=10_400.0)
    cluster.run(until=18)
    for start in (8, 13):
        assert fairness(cluster.log, list(cluster.instances), start=start, end=start + 5) >= 0.99
    assert holds(cluster)


def test_c5_even_of_two_partitions_nobody_keeps_the_better_one() -> None:
    cluster = cluster_of(2, capacity=700.0, factor=500.0, piece=5)
    cluster.run(until=46)
    assert fairness(cluster.log, ["i0", "i1"], start=6, end=46) >= 0.99
    assert holds(cluster)


def test_c5_weights_count() -> None:
    cluster = cluster_of(0)
    weights = {"a": 1.0, "b": 3.0, "c": 1.0}
    for name, weight in weights.items():
        cluster.add(name, Backlog(100), weight=weight)
    cluster.run(until=20)
    assert fairness(cluster.log, list(weights), start=8, end=18, weights=weights) >= 0.99


def test_c5_one_that_wants_little_gets_it_and_the_others_share_the_rest() -> None:
    cluster = cluster_of(3)
    cluster.add("little", Trickle(100, rate=1_500))
    cluster.run(until=20)
    assert cluster.spent("little", 8, 18) >= 0.97 * 1_500 * 10
    assert fairness(cluster.log, ["i0", "i1", "i2"], start=8, end=18) >= 0.99
    assert sum(cluster.spent(name, 8, 18) for name in cluster.instances) >= 0.96 * CAPACITY * 10


def test_c5_one_busy_among_25_idle_gets_everything() -> None:
    cluster = cluster_of(25)
    cluster.run(until=8)
    for name in list(cluster.instances):
        if name != "i7":
            cluster.instances[name].work = Dear(100, every=1e9, start=1e9)
    cluster.run(until=30)
    # Two sync intervals and a period after the change.
    assert cluster.spent("i7", 10, 30) >= 0.98 * CAPACITY * 20


def test_c5_new_shares_hold_within_two_intervals_and_a_period() -> None:
    cluster = cluster_of(3, piece=50)
    cluster.run(until=8)
    cluster.add("new", Backlog(50))
    cluster.run(until=15)
    names = [*cluster.instances]
    assert fairness(cluster.log, names, start=10, end=11) >= 0.98
    assert fairness(cluster.log, names, start=10, end=15) >= 0.99


def test_c5_two_that_begin_at_the_same_moment_share_from_the_start() -> None:
    cluster = cluster_of(2, piece=50)
    for one in cluster.instances.values():
        one.work = Dear(100, every=1e9, start=1e9)
    cluster.run(until=8)
    for one in cluster.instances.values():
        one.work = Backlog(50)
    cluster.run(until=10)
    first, second = (cluster.spent(name, 8, 10) for name in cluster.instances)
    assert max(first, second) <= 1.3 * min(first, second)


@pytest.mark.parametrize("count", [25, 45, 70])
def test_c5_nobody_starves_with_more_instances_than_partitions(count: int) -> None:
    cluster = cluster_of(count)
    cluster.run(until=8 + 5 * count / 20)
    for name in cluster.instances:
        assert cluster.spent(name, 8, 8 + 5 * count / 20) > 0.5 * CAPACITY * 5 / 20


@pytest.mark.parametrize("seed", range(4))
def test_c4_one_worth_the_whole_capacity_goes_among_busy_ones(seed: int) -> None:
    cluster = cluster_of(4, seed=seed)
    cluster.run(until=6 + seed * 0.17)
    dear = Dear(CAPACITY, every=1e9)
    cluster.add("dear", dear)
    there = cluster.now
    cluster.run(until=there + 10)
    assert dear.done
    assert dear.done[0][1] - there <= 5
    assert holds(cluster)
    # Afterwards it is as before.
    busy = [f"i{number}" for number in range(4)]
    assert sum(cluster.spent(name, there + 7, there + 10) for name in busy) >= 0.97 * CAPACITY * 3


@pytest.mark.parametrize("seed", range(4))
def test_c4_several_dear_ones_go_one_after_the_other(seed: int) -> None:
    cluster = cluster_of(2, seed=seed)
    cluster.run(until=6)
    dears = [Dear(cost, every=1e9) for cost in (CAPACITY, 0.6 * CAPACITY, 0.55 * CAPACITY)]
    for number, dear in enumerate(dears):
        cluster.add(f"dear{number}", dear)
    cluster.run(until=18)
    assert all(dear.done for dear in dears)
    assert holds(cluster)


def test_c4_dear_ones_of_a_last_partition_of_less_worth() -> None:
    cluster = cluster_of(2, capacity=10_200.0)
    cluster.run(until=6)
    dear = Dear(10_200.0, every=1e9)
    cluster.add("dear", dear)
    cluster.run(until=12)
    assert dear.done
    assert holds(cluster)


def test_c2_a_dead_ones_share_is_used_again_in_time() -> None:
    cluster = cluster_of(4)
    cluster.run(until=8)
    cluster.kill("i0")
    killed = cluster.now
    cluster.run(until=killed + 12)
    back = killed + 2.0 + 0.5 + 1.0  # the lease, a sync interval, a period
    rest = ["i1", "i2", "i3"]
    assert sum(cluster.spent(name, back, back + 5) for name in rest) >= 0.97 * CAPACITY * 5
    assert holds(cluster)


def test_c6_two_calls_a_second_under_load_and_none_when_idle() -> None:
    cluster = cluster_of(4)
    cluster.run(until=10)
    calls = {name: one.calls for name, one in cluster.instances.items()}
    cluster.run(until=30)
    for name, one in cluster.instances.items():
        assert one.calls - calls[name] <= 2 * 20 + 1
        one.work = Dear(100, every=1e9, start=1e9)
    cluster.run(until=33)
    calls = {name: one.calls for name, one in cluster.instances.items()}
    cluster.run(until=300)
    assert calls == {name: one.calls for name, one in cluster.instances.items()}


def test_c6_from_idle_to_everything_is_one_round_trip() -> None:
    cluster = cluster_of(1)
    only = cluster.instances["i0"]
    only.work = Dear(100, every=1e9, start=1e9)
    cluster.run(until=10)
    calls = only.calls
    only.work = Backlog(100)
    cluster.run(until=10.04)
    assert only.calls == calls + 1
    assert only.holdings.settle(only.local(cluster.now)) == CAPACITY


def test_c7_back_within_two_intervals_after_an_outage() -> None:
    cluster = cluster_of(4)
    cluster.run(until=8)
    cluster.stop_serving(6.0)
    cluster.run(until=14)
    names = list(cluster.instances)
    away = [cluster.spent(name, 11.0, 14.0) for name in names]
    assert not sum(away)
    cluster.run(until=20)
    assert sum(cluster.spent(name, 15.0, 20.0) for name in names) >= 0.95 * CAPACITY * 5
    assert holds(cluster)


def test_c7_a_short_outage_is_not_felt() -> None:
    cluster = cluster_of(4)
    cluster.run(until=8)
    cluster.stop_serving(1.2)
    cluster.run(until=14)
    names = list(cluster.instances)
    assert sum(cluster.spent(name, 8.0, 14.0) for name in names) >= 0.97 * CAPACITY * 6


def test_c8_holders_go_on_through_a_loss_and_nothing_new_is_granted() -> None:
    cluster = cluster_of(2)
    cluster.run(until=8)
    cluster.forget()
    lost = cluster.now
    cluster.add("new", Backlog(100))
    cluster.run(until=20)
    assert not cluster.spent("new", lost, lost + 3.0)
    assert cluster.spent("new", lost + 5, lost + 12) > 0
    holders = cluster.spent("i0", lost, lost + 3) + cluster.spent("i1", lost, lost + 3)
    assert holders >= 0.97 * CAPACITY * 3
    assert holds(cluster)


def test_c9_all_follow_a_change_within_two_intervals() -> None:
    cluster = cluster_of(4, piece=50)
    cluster.run(until=8)
    cluster.set_capacity(8_000.0)
    cluster.run(until=16)
    names = list(cluster.instances)
    assert sum(cluster.spent(name, 10, 16) for name in names) <= 8_000 * 6 + 1
    assert sum(cluster.spent(name, 10, 16) for name in names) >= 0.97 * 8_000 * 6
    cluster.set_capacity(24_000.0)
    cluster.run(until=24)
    assert sum(cluster.spent(name, 18, 24) for name in names) >= 0.97 * 24_000 * 6
    assert holds(cluster)


def test_c9_lowered_and_raised_again_within_a_period() -> None:
    """What was spent of partitions that are no more counts when they come back."""
    cluster = cluster_of(0, capacity=20_000.0, factor=5_000.0)
    cluster.run(until=4)
    cluster.add("first", Dear(20_000.0, every=1e9))
    while not cluster.log:
        cluster.run(cluster.now + 0.01)
    cluster.set_capacity(7_300.0)
    spent_at = cluster.now
    second = cluster.add("second", Backlog(100))
    while not second.holdings.held:
        cluster.run(cluster.now + 0.001)
    cluster.set_capacity(20_000.0)
    cluster.add("third", Backlog(100))
    cluster.run(spent_at + 3)
    assert verify(cluster.log, 20_000).holds


def test_c9_a_raise_with_a_ramp_takes_its_time() -> None:
    cluster = cluster_of(3, capacity=4_000.0, piece=20)
    cluster.run(until=8)
    cluster.set_capacity(14_000.0, ramp=1_000.0)
    cluster.run(until=24)
    assert holds(cluster)
    names = list(cluster.instances)
    for second in range(1, 9):
        spent = sum(cluster.spent(name, 8 + second, 9 + second) for name in names)
        assert spent <= 4_000 + 1_000 * (second + 1)
    assert sum(cluster.spent(name, 20, 24) for name in names) >= 0.96 * 14_000 * 4
