"""C1, C2, C8 and C9 under every fault at once: more than 100,000 windows, none over."""

from __future__ import annotations

from limiters.testing import Backlog, Network, SimulatedCluster
from limiters.verifier import Verdict, verify
from tests.simulation.storms import Storm

SEEDS = range(40)


def judge(storm: Storm) -> Verdict:
    log = storm.run()
    lease = storm.cluster.terms.lease_ms / 1000
    return verify(log, storm.cluster.limits, settling=lease)


def test_c1_c2_c8_c9_no_window_over_in_any_storm() -> None:
    windows = 0
    for seed in SEEDS:
        verdict = judge(Storm(seed))
        assert verdict.holds, f"seed {seed}: {verdict}"
        windows += verdict.windows
    assert windows >= 100_000


def test_c1_with_a_long_period_and_long_leases() -> None:
    windows = 0
    for seed in range(6):
        storm = Storm(seed, seconds=120.0, period=10.0, lease_time=8.0, interval=2.0)
        verdict = verify(storm.run(), storm.cluster.limits, period=10.0, settling=8.0)
        assert verdict.holds, f"seed {seed}: {verdict}"
        windows += verdict.windows
    assert windows > 2_000


def test_a_seed_gives_the_same_run_again() -> None:
    assert Storm(5, seconds=20.0).run() == Storm(5, seconds=20.0).run()


def test_c1_98_percent_are_used_while_nothing_goes_wrong() -> None:
    cluster = SimulatedCluster(
        capacity=20_000, factor=1_000, seed=1, drift=0.0001, network=Network(delay=0.001)
    )
    for name in "abcd":
        cluster.add(name, Backlog(piece=100))
    cluster.run(until=30)
    verdict = verify([entry for entry in cluster.log if entry.at > 5], 20_000)
    assert verdict.holds
    assert verdict.used >= 0.98
