"""The needs of an instance in each bound: laws V4 and V5."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters._needs import Wanted, needs_of


def rate(need: float, mix: float, capacity: float, period: float, lately: float = 0.0) -> Wanted:
    return Wanted(need, mix, lately, capacity, period)


def slots(need: float, running: float, capacity: float) -> Wanted:
    return Wanted(need, running, 0.0, capacity, 60.0, slots=True)


def test_v4_one_bound_needs_what_it_could_spend_however_much_that_is() -> None:
    assert needs_of([rate(5_000, 5_000, 100, 1.0)], seconds=5.0) == [5_000]


def test_v4_the_bound_that_binds_says_how_much_is_needed_of_the_others() -> None:
    wanted = [rate(900, 900, 60, 6.0), rate(360_000, 360_000, 9_000, 6.0)]
    assert needs_of(wanted, seconds=6.0) == [22.5, 9_000]


def test_v4_a_window_of_a_minute_is_needed_for_as_long_as_one_of_a_second() -> None:
    wanted = [rate(1_600, 1_600, 600, 60.0), rate(1_010, 1_600, 10, 1.0)]
    assert needs_of(wanted, seconds=60.0) == [600, 10]


def test_v4_little_that_waits_is_all_that_is_needed() -> None:
    wanted = [rate(3, 3, 60, 6.0), rate(600, 600, 9_000, 6.0)]
    assert needs_of(wanted, seconds=6.0) == [3, 600]


def test_v4_calls_grow_along_with_the_rate_that_slows_them_down() -> None:
    """A quarter of the rate is spent with 3 calls at a time; four times as much would take 12."""
    wanted = [rate(1_015, 1_015, 60, 6.0, lately=15), slots(3, 3, 50)]
    needs = needs_of(wanted, seconds=6.0)
    assert needs == pytest.approx([60, 12])


def test_v4_where_slots_bind_no_more_of_a_rate_is_needed_than_they_can_use() -> None:
    wanted = [rate(1_015, 1_015, 600, 6.0, lately=15), slots(6, 5, 10)]
    assert needs_of(wanted, seconds=6.0) == pytest.approx([30, 10])


def test_n5_as_long_as_nothing_ran_slots_are_needed_for_what_waits() -> None:
    assert needs_of([rate(30, 30, 60, 6.0), slots(30, 0, 50)], seconds=6.0) == [30, 30]


def test_v4_costs_that_vanish_in_a_product_are_all_that_is_needed() -> None:
    wanted = [rate(5e-324, 5e-324, 60, 0.1), slots(1, 1, 50)]
    assert needs_of(wanted, seconds=6.0) == [5e-324, 1]


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e6), st.floats(1, 1e6), st.sampled_from([0.1, 1.0, 60.0]), st.floats(0, 1)
        ),
        min_size=2,
        max_size=5,
    ),
    st.one_of(st.none(), st.tuples(st.integers(0, 40), st.integers(1, 50))),
)
def test_v4_no_need_exceeds_a_capacity_or_what_could_be_spent(
    rates: list[tuple[float, float, float, float]], calls: tuple[int, int] | None
) -> None:
    wanted = [
        rate(waits, waits, capacity, period, lately=waits * part)
        for waits, capacity, period, part in rates
    ]
    if calls is not None:
        wanted.append(slots(calls[0], calls[0], calls[1]))
    if not any(one.mix for one in wanted[: len(rates)]):
        return
    for need, one in zip(needs_of(wanted, seconds=5.0), wanted, strict=True):
        assert 0 <= need <= one.capacity * (1 + 1e-9)
        assert one.slots or need <= one.need
