"""C1, C2, C8 and C9 under every fault at once, judged by a judge of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.judge import Allowance, Judgement, judge
from tests.simulation.storms import STORMS
from tests.simulation.weather import Weather

EACH = 5
"""Seeds in one test, so that it takes a few seconds and others run meanwhile."""


@pytest.mark.parametrize("first", range(0, 40, EACH))
def test_c1_c2_c8_c9_no_window_over_in_any_storm(first: int) -> None:
    assert _windows(STORMS["every-fault"], range(first, first + EACH)) >= 1_000


@pytest.mark.parametrize("first", range(0, 15, EACH))
def test_c1_c9_changes_alone_are_followed_within_two_intervals(first: int) -> None:
    assert _windows(STORMS["changes"], range(first, first + EACH)) >= 1_000


@pytest.mark.parametrize("first", range(0, 15, EACH))
def test_x1_a_return_grants_at_most_what_was_free(first: int) -> None:
    assert _windows(STORMS["returns"], range(first, first + EACH)) >= 1_000


def test_c5_hardly_anybody_waits_for_longer_than_its_share_allows() -> None:
    found = [STORMS["every-fault"](seed) for seed in range(5)]
    found += [STORMS["changes"](seed) for seed in range(5)]
    waits, stalled = sum(one.waits for one in found), sum(len(one.stalled) for one in found)
    assert waits >= 100
    # Those whose fair share is worth one batch, but hardly two, go after those with less, who may
    # be owed up to five periods.
    assert stalled <= 0.01 * waits


def _windows(storm: Callable[[int], Judgement], seeds: range) -> int:
    """How many windows there were, none of them over."""
    windows = 0
    for seed in seeds:
        found = storm(seed)
        assert found.holds, f"seed {seed}: {found}"
        windows += found.windows
    return windows


def test_a_seed_gives_the_same_run_again() -> None:
    first, again = Weather(5), Weather(5)
    assert first.run() == again.run()
    assert first.cluster.log == again.cluster.log


def test_the_judge_finds_each_window_that_is_over() -> None:
    spent = [(0.0, 60.0), (0.5, 40.0), (0.999, 1.0), (1.0, 59.0), (2.6, 100.0)]
    found = judge(spent, [(0.0, 100.0)], [(0.0, 1.0)], lag=0.0)
    assert (found.windows, found.over) == (5, 1)
    assert found.worst == pytest.approx(1.01)
    assert found.worst_at == 0.999


def test_the_judge_allows_the_largest_limit_within_the_lag() -> None:
    limits = [(0.0, 200.0), (1.0, 100.0)]
    spent = [(at, 150.0) for at in (0.5, 3.0)]
    assert judge(spent, limits, [(0.0, 1.0)], lag=1.1).over == 0
    assert judge(spent, limits, [(0.0, 1.0)], lag=0.9).over == 1


def test_the_judge_allows_what_an_exception_names() -> None:
    spent = [(0.1, 100.0), (0.2, 40.0), (5.1, 100.0), (5.2, 40.0)]
    allowances = [Allowance(0.0, 1.0, 0.5)]
    found = judge(spent, [(0.0, 100.0)], [(0.0, 1.0)], 0.0, allowances)
    assert (found.over, found.worst_at) == (1, 5.2)
