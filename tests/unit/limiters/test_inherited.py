"""Spending that came along with capacity: passed on unchanged, forgotten in time (law C2)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters._budgets.inherited import InheritedSpending

entries = st.lists(
    st.tuples(st.integers(0, 1_000), st.floats(0.001, 100), st.floats(0, 10)), max_size=30
)


def inherited(from_: list[tuple[int, float, float]]) -> InheritedSpending:
    spending = InheritedSpending()
    for stamp, cost, expires in from_:
        spending.add(stamp, cost, expires)
    return spending


@given(entries)
def test_c2_what_is_inherited_counts_until_it_expires(
    found: list[tuple[int, float, float]],
) -> None:
    spending = inherited(found)
    for step in range(110):
        now = step / 10
        assert spending.total(now) >= math.fsum(c for _, c, end in found if end > now) - 1e-9
    assert spending.total(10.1) == 0


@given(entries, st.lists(st.floats(0, 1), max_size=8))
def test_c2_each_split_takes_the_same_fraction_of_every_entry_with_its_stamp(
    found: list[tuple[int, float, float]], parts: list[float]
) -> None:
    spending = inherited(found)
    left = {stamp: 0.0 for stamp, _, _ in found}
    for stamp, cost, _ in found:
        left[stamp] += cost
    for part in parts:
        taken = dict(spending.split(part))
        for stamp, cost in taken.items():
            assert cost == pytest.approx(left[stamp] * part)
            left[stamp] -= cost
    rest = dict(spending.split(1.0))
    for stamp, cost in left.items():
        assert rest.get(stamp, 0.0) == pytest.approx(cost, abs=1e-6)
    assert spending.total(0.0) == 0


def test_c2_of_entries_with_one_stamp_the_later_expiry_counts() -> None:
    spending = inherited([(100, 1.0, 5.0), (100, 2.0, 6.0), (100, 4.0, 5.5)])
    assert spending.total(5.9) == 7.0
    assert spending.total(6.0) == 0


def test_c8_another_server_s_stamps_are_dropped_and_what_they_were_of_counts_on() -> None:
    spending = inherited([(100, 1.0, 5.0), (200, 2.0, 6.0)])
    spending.forget_stamps()
    assert spending.total(4.0) == 3.0
    assert spending.total(5.0) == 2.0
    spending.add(200, 8.0, expires=7.0)  # the new server's 200 is another time
    assert spending.total(6.5) == 8.0


def test_c8_what_was_inherited_before_two_failovers_is_not_mixed_up() -> None:
    spending = inherited([(100, 1.0, 5.0), (200, 2.0, 6.0)])
    spending.forget_stamps()
    spending.add(300, 4.0, expires=6.5)
    spending.forget_stamps()
    assert spending.total(4.0) == 7.0
    assert list(spending.coming_free()) == [(5.0, 1.0), (6.0, 2.0), (6.5, 4.0)]


def test_it_says_when_what_comes_free() -> None:
    spending = inherited([(100, 1.0, 6.0), (200, 2.0, 5.0)])
    assert list(spending.coming_free()) == [(5.0, 2.0), (6.0, 1.0)]
