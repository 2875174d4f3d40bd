"""C1, C4, C5, C6 and C9 in virtual time: how much of a limit is used, how fairly, and by how many
calls."""

from __future__ import annotations

import math

import pytest

from limiters.leases._format import UNITS
from limiters.testing import Backlog, Dear, SimulatedCluster, Trickle
from tests.samples import sample, tuples
from tests.simulation.judge import judge

INTERVAL = 0.5

MOST_CALLS = 700
"""The largest number of requests of a cluster in `make test`."""


def cluster_of(
    capacity: float, partitions: float, instances: int, piece: float, period: float = 1.0
) -> SimulatedCluster:
    """Instances with an endless backlog, which do not start at the same moment."""
    cluster = SimulatedCluster(
        capacity=capacity, factor=capacity / partitions, seed=1, period=period, drift=0.0002
    )
    for number in range(instances):
        cluster.run(number * 2 * INTERVAL / instances)
        cluster.add(f"i{number}", Backlog(piece))
    return cluster


def used(cluster: SimulatedCluster, start: float, end: float) -> float:
    """The share of the capacity that was spent in [start, end)."""
    spent = math.fsum(one.cost for one in cluster.log if start <= one.at < end)
    return spent / cluster.terms.capacity / (end - start) * cluster.terms.period / 1000


def jain(cluster: SimulatedCluster, start: float, end: float) -> float:
    """Jain's index of what instances spent, by their weight."""
    shares = [
        cluster.spent(name, start, end) / one.share.profile.weight
        for name, one in cluster.instances.items()
    ]
    return math.fsum(shares) ** 2 / (len(shares) * math.fsum(one * one for one in shares))


def calls(cluster: SimulatedCluster) -> int:
    return sum(one.calls for one in cluster.instances.values())


def holds(cluster: SimulatedCluster) -> bool:
    spent = [(one.at, one.cost) for one in cluster.log]
    return judge(spent, cluster.limits, cluster.periods, 2 * INTERVAL + 0.1).holds


ROWS = [
    # capacity, partitions, instances, batch, period; from, to; used at least
    (1000, 20, 4, 5, 1, 8, 28, 0.98),
    (1000, 20, 13, 5, 1, 8, 28, 0.97),
    (1000, 20, 30, 5, 1, 8, 28, 0.97),
    (1000, 1, 3, 5, 1, 8, 28, 0.97),
    (1000, 1.2, 2, 5, 1, 8, 28, 0.98),
    (1000, 1.5, 2, 5, 1, 8, 28, 0.98),
    (1000, 1.7, 2, 5, 1, 8, 28, 0.98),
    (5, 5, 8, 1, 1, 8, 48, 0.97),
    (10, 10, 4, 1, 1, 8, 48, 0.94),
    (60, 10, 4, 1, 6, 24, 84, 0.97),
    (1000, 20, 25, 5, 60, 120, 300, 0.97),
    (1000, 2, 3, 5, 600, 1200, 3000, 0.97),
    (50, 20, 100, 1, 1, 10, 30, 0.97),
]


@pytest.mark.parametrize(
    ("capacity", "partitions", "instances", "piece", "period", "start", "end", "least"),
    [
        pytest.param(
            *row,
            id=f"{row[0]} in {row[4]} s, {row[2]} on {row[1]}",
            marks=[pytest.mark.long] if row[2] * row[6] / INTERVAL > MOST_CALLS else [],
        )
        for row in ROWS
    ],
)
def test_c1_c5_c6_a_backlog_uses_the_limit_fairly_and_cheaply(
    capacity: float,
    partitions: float,
    instances: int,
    piece: float,
    period: float,
    start: float,
    end: float,
    least: float,
) -> None:
    cluster = cluster_of(capacity, partitions, instances, piece, period)
    cluster.run(start)
    before, permits = calls(cluster), sum(one.share.permits for one in cluster.instances.values())
    cluster.run(end)
    permits = sum(one.share.permits for one in cluster.instances.values()) - permits
    assert holds(cluster)
    assert used(cluster, start, end) >= least
    assert jain(cluster, start, end) >= 0.98
    syncs = instances * (end - start) / INTERVAL
    assert calls(cluster) - before <= 1.05 * syncs + 2.2 * permits


@pytest.mark.parametrize(
    "light",
    [
        4,
        pytest.param(10, marks=[pytest.mark.thorough, pytest.mark.long]),
        pytest.param(19, marks=[pytest.mark.thorough, pytest.mark.long]),
    ],
)
def test_c5_one_busy_among_light_ones_gets_the_rest(light: int) -> None:
    cluster = cluster_of(1000, 20, 1, 1)
    for number in range(light):
        cluster.add(f"light{number}", Trickle(1, rate=1))
    cluster.run(18)
    assert holds(cluster)
    assert used(cluster, 8, 18) >= 0.98
    assert all(cluster.spent(f"light{number}", 8, 18) >= 9 for number in range(light))


@pytest.mark.parametrize("light", sample([1, 3], every=2))
def test_c5_three_busy_among_light_ones_on_20_000(light: int) -> None:
    cluster = cluster_of(20_000, 20, 3, 100)
    for number in range(light):
        cluster.add(f"light{number}", Trickle(100, rate=1000))
    cluster.run(28)
    assert holds(cluster)
    assert used(cluster, 8, 28) >= 0.97
    assert all(cluster.spent(f"light{number}", 8, 28) >= 19_500 for number in range(light))


@pytest.mark.parametrize(("part", "least"), tuples([(1.0, 0.9), (0.8, 0.85), (0.4, 0.9)], every=2))
def test_c4_c5_operations_of_a_large_part_starve_no_other(part: float, least: float) -> None:
    cluster = cluster_of(1000, 20, 2, 5)
    cluster.add("large", Backlog(1000 * part))
    cluster.run(70)
    assert holds(cluster)
    assert used(cluster, 10, 70) >= least
    assert jain(cluster, 10, 70) >= 0.98


def test_c4_the_last_of_twenty_with_whole_operations_starts_each_period() -> None:
    cluster = cluster_of(1000, 20, 20, 1000)
    cluster.run(30.3)
    assert len(cluster.log) >= 24
    for number in range(19):
        cluster.kill(f"i{number}")
    killed = cluster.now
    cluster.run(killed + 30)
    assert holds(cluster)
    starts = [one.at - killed for one in cluster.log if one.at > killed]
    assert starts[0] <= 2 * INTERVAL + 1.5
    assert len(starts) >= 27


@pytest.mark.parametrize("killed", sample([10.2, 10.0, 10.4, 10.6, 10.8], every=3))
def test_c4_one_killed_while_it_saves_up_delays_no_other_for_long(killed: float) -> None:
    cluster = cluster_of(1000, 20, 3, 5)
    cluster.add("large", Backlog(1000))
    cluster.run(killed)
    cluster.kill("large")
    cluster.run(killed + 16)
    assert holds(cluster)
    # Two sync intervals and 0.1 s later; entries of one burst take some periods to spread.
    assert used(cluster, killed + 1.1, killed + 16) >= 0.90


KILLS = [
    # capacity, partitions, instances, batch
    (1000, 20, 4, 5),
    (1000, 20, 13, 5),
    (1000, 1.5, 2, 5),
    (1000, 20, 3, 400),
    (10, 10, 4, 1),
    (5, 5, 8, 1),
]


@pytest.mark.parametrize("killed", [10.0, pytest.param(10.3, marks=pytest.mark.long)])
@pytest.mark.parametrize(("capacity", "partitions", "instances", "piece"), tuples(KILLS, every=2))
def test_c2_c5_after_a_kill_the_others_get_what_is_not_lost(
    capacity: float, partitions: float, instances: int, piece: float, killed: float
) -> None:
    cluster = cluster_of(capacity, partitions, instances, piece)
    cluster.run(killed)
    share = cluster.instances["i0"].share
    lost = share.units / UNITS + share.permit.available(share.until - 2) / capacity
    given_up = killed + cluster.terms.span / 1000 + 2 * INTERVAL
    cluster.kill("i0")
    start, end = killed + 2 * INTERVAL + 0.1, given_up + 8
    cluster.run(end)
    assert holds(cluster)
    best = ((given_up - start) * (1 - lost) + end - given_up) / (end - start)
    best *= capacity // piece * piece / capacity  # so many batches fit into a period
    assert used(cluster, start, end) >= 0.90 * best
    if lost * instances > 0.5:  # by shares; permits of a few batches come unevenly
        assert used(cluster, start, given_up) >= 0.90 * (1 - lost)


def test_c5_weights_count() -> None:
    cluster = cluster_of(1000, 20, 0, 5)
    for name, weight in {"a": 1.0, "b": 3.0, "c": 0.5}.items():
        cluster.add(name, Backlog(5), weight=weight)
    cluster.run(28)
    assert jain(cluster, 8, 28) >= 0.99
    assert used(cluster, 8, 28) >= 0.97


def test_c5_weights_count_for_permits() -> None:
    cluster = cluster_of(5, 5, 0, 1)
    for name, weight in {"a": 1.0, "b": 3.0, "c": 1.0, "d": 1.0, "e": 1.0, "f": 1.0}.items():
        cluster.add(name, Backlog(1), weight=weight)
    cluster.run(128)
    assert jain(cluster, 8, 128) >= 0.99
    assert used(cluster, 8, 128) >= 0.97


def test_c5_new_shares_hold_within_two_intervals_and_a_period() -> None:
    cluster = cluster_of(1000, 20, 3, 5)
    cluster.run(8)
    cluster.add("new", Backlog(5))
    cluster.run(15)
    assert jain(cluster, 10, 11) >= 0.98
    assert jain(cluster, 10, 15) >= 0.99


def test_c5_c6_one_among_25_that_become_idle_gets_everything() -> None:
    cluster = cluster_of(1000, 20, 26, 5)
    cluster.run(8)
    for name, one in cluster.instances.items():
        if name != "i0":
            one.work = Dear(100, every=1e9, start=1e9)
    cluster.run(12)
    idle = calls(cluster) - cluster.instances["i0"].calls
    cluster.run(30)
    assert cluster.spent("i0", 10, 30) >= 0.98 * 1000 * 20
    assert calls(cluster) - cluster.instances["i0"].calls == idle
