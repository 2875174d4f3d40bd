"""When two trees differ: by more than 3 % and what the base differs from itself."""

from __future__ import annotations

import pytest

from benchmarks.ratios import Comparison, Ratios, verdict

ROUNDS = 10


def compared(factor: float, noise: float = 0.0) -> Comparison:
    """A tree whose figure is `factor` times the base's; the second base is off by `noise`."""
    base = [100.0] * ROUNDS
    again = [100.0 * (1 + noise * (-1) ** number) for number in range(ROUNDS)]
    head = [(one + other) / 2 * factor for one, other in zip(base, again, strict=True)]
    return Comparison.of("a figure", base, again, head)


def test_the_median_is_not_moved_by_a_round_that_was_disturbed() -> None:
    ratios = Ratios((1.0, 1.01, 0.99, 1.0, 9.0))
    assert ratios.median == 1.0
    assert ratios.spread == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("factor", "noise", "differs"),
    [
        (1.0, 0.0, False),
        (1.029, 0.0, False),
        (0.971, 0.0, False),
        (1.031, 0.0, True),
        (0.969, 0.0, True),
        (1.06, 0.05, False),  # the machine is no better than that
        (1.09, 0.05, True),
    ],
)
def test_a_difference_counts_beyond_three_percent_and_the_noise(
    factor: float, noise: float, differs: bool
) -> None:
    assert compared(factor, noise).differs is differs


def test_the_verdict_is_one_line_that_names_what_differs() -> None:
    assert verdict([compared(1.0)]) == "verdict: no difference beyond 3 % plus the spread"
    told = verdict([compared(1.0), compared(0.9)])
    assert told == "verdict: differs by more than 3 % plus the spread: a figure (-10.0%)"


def test_the_verdict_says_where_the_noise_hides_what_is_looked_for() -> None:
    told = verdict([compared(1.0), compared(1.0, noise=0.08)])
    assert told.startswith("verdict: no difference beyond 3 % plus the spread, which is up to 8%:")


def test_a_machine_that_becomes_slower_is_no_difference() -> None:
    speeds = [1 - 0.05 * number for number in range(ROUNDS)]
    base, again, head = ([100 * speed for speed in speeds] for _ in range(3))
    assert not Comparison.of("a figure", base, again, head).differs
