"""What goes along when capacity changes hands: law C2. Nothing is lost, nothing is made up."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from limiters.float_error import FLOAT_ERROR
from limiters.portion import portion

Entries = list[tuple[int, float]]
entries = st.lists(st.tuples(st.integers(0, 99), st.floats(0.001, 1_000)), max_size=30).map(
    lambda found: sorted(dict(found).items())
)


def total(parts: Entries) -> float:
    return math.fsum(cost for _, cost in parts)


@given(entries, st.floats(0, 40_000))
@example([(0, 100.0)], 100 * FLOAT_ERROR)
def test_c2_it_takes_the_target_and_leaves_the_rest(whole: Entries, target: float) -> None:
    taken, left = portion(whole, target)
    slack = 2 * FLOAT_ERROR * (1 + total(whole))
    assert total(taken) == pytest.approx(min(target, total(whole)), abs=slack)
    assert total(taken) + total(left) == pytest.approx(total(whole), abs=slack)


@given(entries, st.floats(0, 40_000))
def test_c2_no_entry_changes_its_age(whole: Entries, target: float) -> None:
    taken, left = portion(whole, target)
    for at, cost in whole:
        parts = [part for when, part in taken + left if when == at]
        assert math.fsum(parts) == pytest.approx(cost)
        assert all(part > 0 for part in parts)
    for ages in ([at for at, _ in taken], [at for at, _ in left]):
        assert ages == sorted(set(ages))


@given(st.integers(1, 50), st.integers(0, 50), st.floats(0.1, 100))
def test_entries_of_one_size_go_whole_and_evenly(count: int, go: int, size: float) -> None:
    whole = [(at, size) for at in range(count)]
    taken, _ = portion(whole, min(go, count) * size)
    assert all(cost == pytest.approx(size) for _, cost in taken)
    # Of any part of the period, the same share goes, give or take one.
    for end in range(count + 1):
        among = sum(at < end for at, _ in taken)
        assert abs(among - end * min(go, count) / count) <= 1 + 1e-6


def test_nothing_of_nothing() -> None:
    assert portion([], 5.0) == ([], [])
    assert portion([], 0.0) == ([], [])
    assert portion([(1, 2.0)], 0.0) == ([], [(1, 2.0)])
