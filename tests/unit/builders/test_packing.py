"""In which order groups are placed: laws S4 and S6 on bare sizes and costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.builders._packing import costs, packing
from dispatcher.builders._packing.costs import BatchLimits, CostGroup, PackingState
from dispatcher.builders._packing.packing import best_order, largest_first, walk

few = st.lists(st.integers(1, 12), min_size=1, max_size=6)
many = st.lists(st.integers(1, 60), min_size=1, max_size=60)
mosts = st.integers(1, 12)


def end(fill: int, sizes: Sequence[int], most: int) -> int:
    order = best_order(fill, sizes, most)
    assert sorted(order) == list(range(len(sizes)))
    return walk(fill, sizes, order, most)


@given(few, mosts, st.data())
def test_s4_the_best_of_all_orders_is_taken(
    sizes: list[int], most: int, data: st.DataObject
) -> None:
    fill = data.draw(st.integers(0, most))
    orders = itertools.permutations(range(len(sizes)))
    assert end(fill, sizes, most) == min(walk(fill, sizes, order, most) for order in orders)


@given(few, mosts, st.data())
def test_s4_largest_first_unless_another_is_better(
    sizes: list[int], most: int, data: st.DataObject
) -> None:
    fill = data.draw(st.integers(0, most))
    first = largest_first(sizes)
    if end(fill, sizes, most) == walk(fill, sizes, first, most):
        assert tuple(best_order(fill, sizes, most)) == first


@given(st.lists(many, max_size=12), st.integers(1, 60))
def test_s6_never_further_than_next_fit(timestamps: list[list[int]], most: int) -> None:
    ours = theirs = 0
    for sizes in timestamps:
        ours = end(ours, sizes, most)
        theirs = walk(theirs, sizes, range(len(sizes)), most)
        assert ours <= theirs


@given(many, st.integers(1, 60), st.integers(0, 60))
def test_s6_holds_also_where_nothing_is_searched_for(
    sizes: list[int], most: int, fill: int
) -> None:
    fill %= most + 1
    with mock.patch.multiple(packing, MOST_STATES=0, MOST_GROUPS=0):
        assert end(fill, sizes, most) <= walk(fill, sizes, range(len(sizes)), most)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 60), st.integers(1, 20))
def test_s6_a_step_is_monotone(one: int, other: int, size: int, most: int) -> None:
    low, high = sorted((one, other))
    assert packing.step(low, size, most) <= packing.step(high, size, most)


@pytest.mark.parametrize("candidate", [packing.fullest, packing.largest_that_fits, packing.exact])
@given(sizes=few, most=mosts, fill=st.integers(0, 12))
def test_every_candidate_is_an_order_of_all_groups(
    candidate: object, sizes: list[int], most: int, fill: int
) -> None:
    order = candidate(min(fill, most), sizes, most)  # type: ignore[operator]
    assert sorted(order) == list(range(len(sizes)))


@given(few, st.integers(0, 12))
def test_what_is_spare_is_what_no_choice_of_groups_fills(sizes: list[int], room: int) -> None:
    chosen = itertools.chain.from_iterable(
        itertools.combinations(sizes, count) for count in range(len(sizes) + 1)
    )
    fills = [sum(some) for some in chosen]
    assert packing.spare(room, sizes) == room - max(fill for fill in fills if fill <= room)


def test_s4_each_search_finds_what_the_simpler_ones_do_not() -> None:
    # Room for 6 next to 4: largest first puts 5 there, 3 + 3 would be full.
    assert end(4, [5, 3, 3], 10) == 4 + 6 + 5
    with mock.patch.multiple(packing, MOST_STATES=0):
        assert end(4, [5, 3, 3], 10) == 4 + 6 + 5  # the fullest
    with mock.patch.multiple(packing, MOST_STATES=0, MOST_GROUPS=0):
        assert end(0, [6, 5, 4, 3], 10) == 18  # the largest that fits: 6 + 4, 5 + 3


def test_s4_an_order_that_is_only_as_good_is_not_taken() -> None:
    assert tuple(best_order(0, [9, 3, 4, 6], 10)) == largest_first([9, 3, 4, 6])


def test_s4_the_emptiest_batch_is_the_one_left_open() -> None:
    searches: list[dict[str, Any]] = [{"MOST_STATES": 0}, {"MOST_STATES": 0, "MOST_GROUPS": 0}]
    for limits in searches:
        with mock.patch.multiple(packing, **limits):
            assert end(0, [9, 6, 5, 5], 10) == 10 + 10 + 6


def test_s4_equal_sizes_stay_in_order_of_arrival() -> None:
    assert list(best_order(0, [2, 3, 2, 3], 10)) == [1, 3, 0, 2]
    assert list(packing.exact(0, [2, 3, 2, 3], 5)) in ([0, 1, 2, 3], [1, 0, 3, 2], [1, 0, 2, 3])


# With a bound on cost as well.

weights = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=5)


def groups_of(timestamp: list[list[int]]) -> list[CostGroup]:
    return [CostGroup([costs.exact(c) for c in each], costs.exact(sum(each))) for each in timestamp]


def led(
    limits: BatchLimits, state: PackingState, groups: list[CostGroup], order: Sequence[int]
) -> PackingState:
    for index in order:
        state = limits.step(state, groups[index])
    return state


@given(st.lists(weights, max_size=6), st.integers(1, 6), st.integers(9, 20))
def test_s6_with_costs_never_further_than_next_fit(
    timestamps: list[list[list[int]]], most: int, most_cost: int
) -> None:
    limits = BatchLimits(most, most_cost)
    for searched in (6, 0):
        ours = theirs = PackingState(0, 0, 0)
        for timestamp in timestamps:
            groups = groups_of(timestamp)
            with mock.patch.object(costs, "MOST_GROUPS", searched):
                order = costs.best_order(ours, groups, limits)
            assert sorted(order) == list(range(len(groups)))
            ours = led(limits, ours, groups, order)
            theirs = led(limits, theirs, groups, range(len(groups)))
            assert ours.no_further(theirs)


@given(weights, st.integers(1, 6), st.integers(9, 20), st.integers(0, 6), st.integers(0, 20))
def test_s4_with_costs_the_best_of_the_orders_that_keep_s6(
    timestamp: list[list[int]], most: int, most_cost: int, number: int, cost: int
) -> None:
    limits, groups = BatchLimits(most, most_cost), groups_of(timestamp)
    state = PackingState(0, min(number, most), costs.exact(min(cost, most_cost)))
    orders = list(itertools.permutations(range(len(groups))))
    bound = led(limits, state, groups, orders[0])
    ends = [led(limits, state, groups, order) for order in orders]
    allowed = [(e.closed, limits.load(e.number, e.cost)) for e in ends if e.no_further(bound)]
    got = led(limits, state, groups, costs.best_order(state, groups, limits))
    assert (got.closed, limits.load(got.number, got.cost)) == min(allowed)


@given(
    st.lists(st.floats(0, 1e9) | st.integers(0, 2**60), max_size=30),
    st.floats(1e-9, 1e9) | st.integers(1, 2**60),
)
def test_s1_a_sum_of_costs_is_allowed_just_when_it_rounds_to_no_more(
    each: list[float], most: float
) -> None:
    total = sum(each) if all(isinstance(one, int) for one in each) else math.fsum(each)
    assert BatchLimits(1, most).allow(0, sum(map(costs.exact, each))) == (total <= most)


def test_s1_a_sum_just_between_two_floats_is_rounded_as_floats_are() -> None:
    odd = math.nextafter(1.0, 2)
    half = [odd, 2.0**-53]
    assert math.fsum(half) > odd
    assert not BatchLimits(10, odd).allow(2, sum(map(costs.exact, half)))
    assert BatchLimits(10, 1.0).allow(2, sum(map(costs.exact, [1.0, 2.0**-53])))


def test_s1_ten_tenths_are_one() -> None:
    assert BatchLimits(10, 1.0).allow(10, 10 * costs.exact(0.1))
    assert not BatchLimits(10, 1).allow(10, costs.exact(1) + costs.exact(1e-15))
    assert not BatchLimits(10, 2**60).allow(10, costs.exact(2**60 + 1))
