"""C4 and C5 in virtual time: turns are fair whatever an instance does with its batches and name."""

from __future__ import annotations

import math

import pytest

from limiters.testing import Backlog, OnAndOff, SimulatedCluster
from tests.samples import sample, tuples
from tests.simulation.test_use import cluster_of, holds, jain, used


def cluster_with(*pieces: float) -> SimulatedCluster:
    """A limit of 1,000 a second, and a backlog of batches of each of these costs."""
    cluster = cluster_of(1000, 20, 0, 0)
    for number, piece in enumerate(pieces):
        cluster.add(f"i{number}", Backlog(piece))
    return cluster


def longest_wait(cluster: SimulatedCluster, name: str, start: float, end: float) -> float:
    times = [one.at for one in cluster.log if one.instance == name and start <= one.at < end]
    return max(b - a for a, b in zip([start, *times], [*times, end], strict=True))


@pytest.mark.parametrize(
    ("pieces", "small", "least"),
    tuples(
        [
            ((510, 510, 510, 3), 250, 0.95),
            ((600, 600, 3), 333, 0.95),
            ((334, 334, 334, 334, 3), 200, 0.95),
            ((600, 600, 5, 5), 200, 0.85),
        ],
        every=3,
    ),
)
def test_c4_c5_large_batches_that_do_not_fill_the_limit_starve_no_other(
    pieces: tuple[float, ...], small: float, least: float
) -> None:
    cluster = cluster_with(*pieces)
    cluster.run(40)
    assert holds(cluster)
    assert used(cluster, 10, 40) >= least
    assert cluster.spent(f"i{len(pieces) - 1}", 10, 40) >= 0.9 * small * 30
    assert longest_wait(cluster, f"i{len(pieces) - 1}", 10, 40) <= 2


@pytest.mark.parametrize("pieces", sample([(200, 5, 5), (260, 3), (334, 20)], every=3))
def test_c4_batches_of_half_a_fair_share_and_more_get_it(pieces: tuple[float, ...]) -> None:
    cluster = cluster_with(*pieces)
    cluster.run(70)
    assert holds(cluster)
    assert jain(cluster, 10, 70) >= 0.97


@pytest.mark.parametrize("pieces", sample([(847, 935, 292, 227), (812, 288, 989, 472)], every=2))
def test_c4_large_batches_that_differ_get_near_their_fair_shares(
    pieces: tuple[float, ...],
) -> None:
    cluster = cluster_with(*pieces)
    cluster.run(70)
    assert holds(cluster)
    assert jain(cluster, 10, 70) >= 0.93
    for number in range(len(pieces)):
        assert cluster.spent(f"i{number}", 10, 70) >= 0.45 * 1000 * 60 / len(pieces)


class Once:
    """One batch; then its instance leaves, and comes back under another name."""

    def __init__(self, cluster: SimulatedCluster, name: str, piece: float) -> None:
        self.cluster, self.name, self.piece = cluster, name, piece
        self.left = 1

    def waiting(self, now: float) -> float:
        return self.piece * self.left

    def went(self, cost: float, now: float) -> None:
        self.left = 0
        self.cluster.at(now + 0.02, self._again)

    def _again(self, now: float) -> None:
        self.cluster.leave(self.name)
        self.cluster.at(now + 0.02, self._come_back)

    def _come_back(self, now: float) -> None:
        name = f"{self.name}'"
        self.cluster.add(name, Once(self.cluster, name, self.piece))


@pytest.mark.parametrize(
    ("others", "piece"), [(5, 1000), pytest.param(9, 10, marks=pytest.mark.long)]
)
def test_c5_a_new_name_for_each_batch_gains_nothing(others: int, piece: float) -> None:
    cluster = cluster_with(*[piece] * others)
    cluster.run(5)
    cluster.add("new", Once(cluster, "new", 1000))
    cluster.run(65)
    fair = 1000 * 60 / (others + 1)
    renamed = math.fsum(
        one.cost for one in cluster.log if one.instance.startswith("new") and one.at >= 5
    )
    assert renamed <= 1.1 * fair + 1000
    for number in range(others):
        assert cluster.spent(f"i{number}", 5, 65) >= 0.75 * fair
        assert longest_wait(cluster, f"i{number}", 5, 65) <= others + 6


class LargeAndSmall:
    """A large batch, then some small ones, and again."""

    def __init__(self, large: float, small: float, rest: float) -> None:
        self.large, self.small, self.rest = large, small, rest
        self.piece = large
        self.until = self.sent = 0.0

    def waiting(self, now: float) -> float:
        if now >= self.until:
            self.piece = self.large
            return math.inf
        self.piece = self.small
        began = self.until - self.rest
        return max(0.0, math.floor((now - began) / self.small) * self.small - self.sent)

    def went(self, cost: float, now: float) -> None:
        if cost == self.large:
            self.until, self.sent = now + self.rest, 0.0
        else:
            self.sent += cost


def test_c4_small_batches_between_large_ones_do_not_forgive_these() -> None:
    cluster = cluster_with(*[1] * 9)
    cluster.add("both", LargeAndSmall(1000, 1, 1.2))
    cluster.run(35)
    assert holds(cluster)
    assert cluster.spent("both", 5, 35) <= 1.2 * 100 * 30


class Pausing:
    """A backlog with a pause."""

    def __init__(self, piece: float, start: float, end: float) -> None:
        self.piece, self.start, self.end = piece, start, end

    def waiting(self, now: float) -> float:
        return 0.0 if self.start <= now < self.end else math.inf

    def went(self, cost: float, now: float) -> None:
        pass


def test_c5_a_debt_made_next_to_a_heavy_instance_does_not_delay_a_light_one_later() -> None:
    cluster = cluster_with()
    cluster.add("light", Pausing(400, 7, 8.2), weight=0.001)
    cluster.run(0.2)
    cluster.add("heavy", Backlog(10), weight=1000)
    cluster.run(8)
    cluster.leave("heavy")
    cluster.add("equal", Backlog(400), weight=0.001)
    cluster.run(50)
    assert cluster.spent("light", 10, 50) >= 0.9 * cluster.spent("equal", 10, 50)
    assert longest_wait(cluster, "light", 10, 50) <= 4


@pytest.mark.parametrize("seed", sample([2, 3], every=2))
def test_c4_an_instance_that_stops_asking_again_and_again_starts_and_wastes_little(
    seed: int,
) -> None:
    cluster = SimulatedCluster(capacity=1000, factor=50, seed=seed)
    for number in range(4):
        cluster.add(f"i{number}", Backlog(40))
    cluster.add("flapping", OnAndOff(400, 0.5, 0.5))
    cluster.run(40)
    assert holds(cluster)
    assert cluster.spent("flapping", 10, 40) >= 0.5 * 200 * 30
    assert used(cluster, 10, 40) >= 0.7
