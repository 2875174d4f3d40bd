"""Who gets how much: law C5, weighted max-min in whole units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limiters.leases._coordinator.shares import Level, level_of
from limiters.leases._format import UNITS

wants = st.integers(0, UNITS)
weights = st.sampled_from([1, 500, 1_000, 1_000, 2_000, 3_333, 1_000_000])
crowds = st.lists(st.tuples(wants, weights), max_size=40)
units = st.integers(0, UNITS)


@given(crowds, units)
def test_c5_all_are_filled_up_to_the_same_level_or_have_what_they_want(
    asks: list[tuple[int, int]], there: int
) -> None:
    level = level_of(asks, there)
    shares = [level.share(want, weight) for want, weight in asks]
    assert all(share <= want for share, (want, _) in zip(shares, asks, strict=True))
    if sum(want for want, _ in asks) <= there:
        assert shares == [want for want, _ in asks]
        return
    # Nobody can be given more without taking it from one who has no more for its weight.
    for share, (want, weight) in zip(shares, asks, strict=True):
        if share < want:
            assert share == weight * level.units // level.weight


@given(crowds, units)
def test_c5_no_more_is_given_than_there_is_and_hardly_anything_is_left_over(
    asks: list[tuple[int, int]], there: int
) -> None:
    level = level_of(asks, there)
    given_ = sum(level.share(want, weight) for want, weight in asks)
    assert given_ <= there
    wanted = sum(want for want, _ in asks)
    assert given_ >= min(there, wanted) - len(asks), "a unit each, for rounding"


@given(crowds.flatmap(lambda found: st.tuples(st.just(found), st.permutations(found))), units)
def test_c5_the_order_in_which_instances_are_listed_changes_nothing(
    orders: tuple[list[tuple[int, int]], list[tuple[int, int]]], there: int
) -> None:
    one, other = orders
    assert level_of(one, there) == level_of(other, there)


@given(st.integers(1, 200))
def test_c5_equals_get_the_same_to_the_unit_also_with_more_instances_than_partitions(
    instances: int,
) -> None:
    level = level_of([(UNITS, 1_000)] * instances, UNITS)
    assert level.share(UNITS, 1_000) == UNITS // instances


def test_c5_one_who_needs_a_thousandth_gets_that_and_the_busy_one_the_rest() -> None:
    light, busy = UNITS // 1_000, UNITS
    level = level_of([*[(light, 1_000)] * 10, (busy, 1_000)], UNITS)
    assert level.share(light, 1_000) == light
    assert level.share(busy, 1_000) == UNITS - 10 * light


@pytest.mark.parametrize("weight", [1, 999, 1_000_000])
def test_c5_weights_divide_what_is_short(weight: int) -> None:
    level = level_of([(UNITS, weight), (UNITS, 1_000)], UNITS)
    first, other = level.share(UNITS, weight), level.share(UNITS, 1_000)
    assert first * 1_000 == pytest.approx(other * weight, rel=1e-3)
    assert UNITS - 2 <= first + other <= UNITS


def test_nobody_and_nothing() -> None:
    assert level_of([], 5) == Level()
    assert level_of([(0, 1_000)], 0) == Level()
    assert Level().share(7, 1_000) == 7
    assert level_of([(3, 1_000)], 0).share(3, 1_000) == 0
