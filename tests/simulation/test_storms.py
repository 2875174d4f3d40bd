"""C1, C2, C8 and C9 under every fault at once: at least 80,000 windows, none over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from limiters.testing import Backlog, Network, SimulatedCluster
from limiters.verifier import Verdict, verify
from tests.simulation.storms import Storm, every_fault, long_periods

EACH = 5
"""Seeds in one test, so that it takes a few seconds and others run meanwhile."""


@pytest.mark.parametrize("first", range(0, 40, EACH))
def test_c1_c2_c8_c9_no_window_over_in_any_storm(first: int) -> None:
    assert _windows(every_fault, range(first, first + EACH)) >= 10_000


def test_c1_with_a_long_period_and_long_leases() -> None:
    assert _windows(long_periods, range(6)) > 2_000


def _windows(storm: Callable[[int], Verdict], seeds: range) -> int:
    """How many windows there were, none of them over."""
    windows = 0
    for seed in seeds:
        verdict = storm(seed)
        assert verdict.holds, f"seed {seed}: {verdict}"
        windows += verdict.windows
    return windows


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
