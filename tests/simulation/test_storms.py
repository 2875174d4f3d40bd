"""C1, C2, C8 and C9 under every fault at once, judged by a judge of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.judge import Allowance, Judgement, judge
from tests.simulation.storms import STORMS
from tests.simulation.weather import Weather

EACH = 5
"""Seeds in one test, so that it takes a few seconds and others run meanwhile."""

WAITS = range(5, 10)
"""Seeds whose waits are judged, too: many have to wait there."""


def blocks(count: int) -> list[int]:
    """The first seed of each test, of so many seeds, without `WAITS`."""
    return [first for first in range(0, count, EACH) if first not in WAITS]


@pytest.mark.thorough
@pytest.mark.parametrize("first", blocks(20))
def test_c1_c2_c8_c9_no_window_over_in_any_storm(first: int) -> None:
    assert _windows(STORMS["every-fault"], range(first, first + EACH)) >= 1_000


@pytest.mark.thorough
@pytest.mark.parametrize("first", blocks(5))
def test_c1_c9_changes_alone_are_followed_within_two_intervals(first: int) -> None:
    assert _windows(STORMS["changes"], range(first, first + EACH)) >= 1_000


@pytest.mark.parametrize("first", [0, pytest.param(5, marks=pytest.mark.thorough)])
def test_x1_a_return_grants_at_most_what_was_free(first: int) -> None:
    assert _windows(STORMS["returns"], range(first, first + EACH)) >= 1_000


def test_c1_c2_c5_c8_c9_hardly_anybody_waits_for_longer_than_its_share_allows() -> None:
    found = _judged(STORMS["every-fault"], WAITS) + _judged(STORMS["changes"], WAITS)
    waits, stalled = sum(one.waits for one in found), sum(len(one.stalled) for one in found)
    assert waits >= 100
    # Those whose fair share is worth one batch, but hardly two, go after those with less, who may
    # be owed up to five periods.
    assert stalled <= 0.01 * waits


def _windows(storm: Callable[[int], Judgement], seeds: range) -> int:
    """How many windows there were, none of them over."""
    return sum(one.windows for one in _judged(storm, seeds))


def _judged(storm: Callable[[int], Judgement], seeds: range) -> list[Judgement]:
    """What was found, and no window was over."""
    judged = []
    for seed in seeds:
        judged.append(storm(seed))
        assert judged[-1].holds, f"seed {seed}: {judged[-1]}"
    return judged


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
