"""The simulated cluster and the verifier can fail: each rule of the design, broken, is caught.

Every scenario runs first as designed, where it must hold for all seeds, and then with one rule
broken, where some seed must show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

import limiters.holdings
from limiters.holdings import Holdings, News
from limiters.leases.coordinator import Coordinator
from limiters.leases.member import Member
from limiters.leases.messages import History, Reply
from limiters.leases.ranges import Ranges
from limiters.testing import Backlog, Network, SimulatedCluster
from limiters.verifier import fairness, verify

Scenario = Callable[..., bool]


def cut_off_with_a_slow_clock(seed: int, **options: object) -> bool:
    """One that spends all at once is cut off; another one takes over. Leases are long, so that
    a clock that runs slower by a percent is late by much."""
    cluster = SimulatedCluster(
        capacity=1_000,
        factor=1_000,
        seed=seed,
        lease_time=30,
        interval=0.1,
        latest_start=0.0,
        **options,  # type: ignore[arg-type]
    )
    cluster.add("a", Backlog(1_000)).rate = 0.99
    cluster.run(until=32 + seed * 0.13)
    cluster.add("b", Backlog(1_000))
    cluster.cut_off("a", 1_000)
    cluster.run(until=cluster.now + 33)
    return verify(cluster.log, 1_000).holds


def cut_off_on_a_slow_network(seed: int, **options: object) -> bool:
    """The same, and its replies took long."""
    cluster = SimulatedCluster(
        capacity=1_000,
        factor=1_000,
        seed=seed,
        interval=0.1,
        latest_start=0.0,
        network=Network(delay=0.12),
        **options,  # type: ignore[arg-type]
    )
    cluster.add("a", Backlog(1_000))
    cluster.run(until=5 + seed * 0.13)
    cluster.network.delay = 0.001
    cluster.add("b", Backlog(1_000))
    cluster.cut_off("a", 1_000)
    cluster.run(until=cluster.now + 5)
    return verify(cluster.log, 1_000).holds


def flushed(seed: int, **options: object) -> bool:
    """The coordinator forgets while one holds everything, and another one comes first."""
    cluster = SimulatedCluster(capacity=4_000, factor=1_000, seed=seed, **options)  # type: ignore[arg-type]
    cluster.add("a", Backlog(100))
    cluster.run(until=6)
    cluster.forget()
    cluster.add("b", Backlog(100))
    cluster.run(until=12)
    return verify(cluster.log, 4_000).holds


def thirteen_busy(seed: int, **options: object) -> SimulatedCluster:
    cluster = SimulatedCluster(capacity=20_000, factor=1_000, seed=seed, **options)  # type: ignore[arg-type]
    for number in range(13):
        cluster.add(f"i{number}", Backlog(100))
    cluster.run(until=15)
    return cluster


def rotating(seed: int, **options: object) -> bool:
    """Partitions change hands all the time, under a full load."""
    return verify(thirteen_busy(seed, **options).log, 20_000).holds


def rotating_fairly(seed: int, **options: object) -> bool:
    """More instances than divide the partitions evenly, and all want all."""
    cluster = thirteen_busy(seed, **options)
    return fairness(cluster.log, list(cluster.instances), start=10, end=15) >= 0.99


class DropsHistory(Holdings):
    def _part_with(self, released: Ranges, now: float) -> History:
        super()._part_with(released, now)
        return ()


class TakesNoHistory(Holdings):
    def answered(self, reply: Reply, sent_at: float, now: float) -> News:
        news = super().answered(reply, sent_at, now)
        self.ledger.take_out(sum(cost for _, cost in reply.history), now)
        return news


class ReckonsFromTheReply(Holdings):
    def answered(self, reply: Reply, sent_at: float, now: float) -> News:
        return super().answered(reply, now, now)


class NeverGivesUp(Holdings):
    def settle(self, now: float) -> float:
        if self.held:
            self.tenure.until = float("inf")
        return super().settle(now)


class GrantsAfterAFlush(Coordinator):
    def _unsure(self, now_ms: int, server: str) -> None:
        super()._unsure(now_ms, server)
        self.quarantine_ms = 0


class GivesUpTooSoon(Coordinator):
    @property
    def _gone_after_ms(self) -> int:
        return self._terms.lease_ms


class NeverRotates(Coordinator):
    def _credit(self, member: Member) -> float:
        return 0.0


def caught(scenario: Scenario, seeds: Iterable[int], **options: object) -> bool:
    return not all(scenario(seed, **options) for seed in seeds)


MUTANTS: list[tuple[Scenario, str, type, int]] = [
    (rotating, "holdings", DropsHistory, 2),
    (rotating, "holdings", TakesNoHistory, 2),
    (cut_off_with_a_slow_clock, "holdings", NeverGivesUp, 10),
    (cut_off_on_a_slow_network, "holdings", ReckonsFromTheReply, 40),
    (cut_off_on_a_slow_network, "coordinator", GivesUpTooSoon, 20),
    (flushed, "coordinator", GrantsAfterAFlush, 10),
    (rotating_fairly, "coordinator", NeverRotates, 3),
]


@pytest.mark.parametrize(
    ("scenario", "part", "mutant", "seeds"), MUTANTS, ids=[one[2].__name__ for one in MUTANTS]
)
def test_a_broken_rule_is_caught(scenario: Scenario, part: str, mutant: type, seeds: int) -> None:
    assert not caught(scenario, range(seeds))
    assert caught(scenario, range(seeds), **{part: mutant})


def test_no_margin_on_the_lease_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = range(20)
    assert not caught(cut_off_with_a_slow_clock, seeds)
    monkeypatch.setattr(limiters.holdings, "DRIFT", 0.0)
    monkeypatch.setattr(limiters.holdings, "MARGIN", 0.0)
    assert caught(cut_off_with_a_slow_clock, seeds)
