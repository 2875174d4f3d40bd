"""C1, C2, C8 and C9 under every fault at once, judged by a judge of its own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.judge import Allowance, Haste, Judgement, judge
from tests.simulation.storms import STORMS
from tests.simulation.weather import Weather

EACH = 5
"""Seeds in one test, so that it takes a few seconds and others run meanwhile."""

WAITS = range(5, 10)
"""Seeds whose waits are judged, too: many have to wait there."""


NEEDED = {("shorter-first", 75), ("split-brain", 0)}
"""Blocks of seeds in which windows are over the limit, as the exception allows. Those of X4 hardly
ever are."""


def blocks(count: int) -> list[int]:
    """The first seed of each test, of so many seeds, without `WAITS`."""
    return [first for first in range(0, count, EACH) if first not in WAITS]


@pytest.mark.thorough
@pytest.mark.parametrize("first", blocks(20))
def test_c1_c2_c8_c9_no_window_over_in_any_storm(first: int) -> None:
    assert _windows(STORMS["every-fault"], range(first, first + EACH)) >= 500


@pytest.mark.thorough
@pytest.mark.parametrize("first", blocks(5))
def test_c1_c9_changes_alone_are_followed_within_two_intervals(first: int) -> None:
    assert _windows(STORMS["changes"], range(first, first + EACH)) >= 500


@pytest.mark.parametrize("first", [0, pytest.param(5, marks=pytest.mark.long)])
def test_x1_a_return_grants_at_most_what_was_free(first: int) -> None:
    assert _windows(STORMS["returns"], range(first, first + EACH)) >= 500


@pytest.mark.parametrize(
    ("storm", "first"),
    [
        ("shorter-first", 75),
        pytest.param("shorter-first", 65, marks=pytest.mark.long),
        ("split-brain", 0),
        pytest.param("split-brain", 5, marks=pytest.mark.long),
        pytest.param("small-steps", 0, marks=pytest.mark.thorough),
        pytest.param("small-steps", 5, marks=pytest.mark.long),
    ],
)
def test_x2_x3_x4_grant_no_more_than_they_are_said_to(storm: str, first: int) -> None:
    found = _judged(STORMS[storm], range(first, first + EACH))
    assert sum(one.windows for one in found) >= 100
    if (storm, first) in NEEDED:
        assert sum(one.excepted for one in found) > 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("storm", "first"),
    [
        ("several-every-fault", 0),
        ("several-every-fault", 10),
        ("several-changes", 0),
        pytest.param("several-changes", 5, marks=pytest.mark.long),
        ("several-returns", 0),
        ("several-shorter-first", 0),
        ("several-split-brain", 0),
        pytest.param("several-small-steps", 0, marks=pytest.mark.long),
    ],
)
def test_v1_n1_n3_no_bound_is_over_in_any_storm(storm: str, first: int) -> None:
    assert _windows(STORMS[storm], range(first, first + EACH)) >= 100


@pytest.mark.thorough
@pytest.mark.parametrize("storm", ["every-fault", "changes"])
def test_c4_c5_nobody_waits_for_longer_than_its_share_allows(storm: str) -> None:
    assert sum(one.waits for one in _judged(STORMS[storm], WAITS)) >= 20


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(
            13,
            id="a capacity that rises tenfold just after a permit",
            marks=pytest.mark.thorough,
        ),
        pytest.param(23, id="a newcomer goes before an instance that has just spent everything"),
        pytest.param(90, id="a batch of two thirds of a fair share"),
        pytest.param(
            101, id="fair shares of hardly two batches in an hour", marks=pytest.mark.thorough
        ),
        pytest.param(190, id="who waits keeps its turn, however long"),
        pytest.param(201, id="a capacity that falls to a tenth", marks=pytest.mark.thorough),
    ],
)
def test_c4_c5_nobody_waits_too_long_where_somebody_once_did(seed: int) -> None:
    assert _judged(STORMS["changes"], range(seed, seed + 1))[0].waits


def _windows(storm: Callable[[int], Judgement], seeds: range) -> int:
    """How many windows there were, none of them over."""
    return sum(one.windows for one in _judged(storm, seeds))


def _judged(storm: Callable[[int], Judgement], seeds: range) -> list[Judgement]:
    """What was found: no window was over, and nobody waited too long."""
    judged = []
    for seed in seeds:
        judged.append(storm(seed))
        assert judged[-1].holds, f"seed {seed}: {judged[-1]}"
    return judged


def test_c5_one_that_hangs_again_while_it_hangs_is_judged_from_when_it_goes_on() -> None:
    _judged(STORMS["every-fault"], range(24, 25))


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
    assert (found.over, found.worst_at, found.excepted) == (1, 5.2, 1)


def test_the_judge_allows_what_comes_too_early_by_as_much_as_is_said() -> None:
    spent = [(0.0, 100.0), (0.8, 40.0), (5.0, 100.0), (5.6, 40.0), (9.0, 100.0), (9.8, 40.0)]
    found = judge(spent, [(0.0, 100.0)], [(0.0, 1.0)], 0.0, hastes=[Haste(0.0, 6.0, 0.3)])
    assert (found.over, found.excepted) == (2, 1)
