"""Law K8 without Spark or Redis: which subjects share a batch."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.spark._rows.packing import OPEN_AT_ONCE, Packing, Size


def packed(sizes: list[Size], most: Size) -> list[list[int]]:
    """Return the packs, by the places of their subjects."""
    packing = Packing[int](most)
    packs = [pack for place, size in enumerate(sizes) for pack in packing.add(place, size)]
    return packs + list(packing.rest())


def filled(pack: list[int], sizes: list[Size]) -> Size:
    return tuple(map(sum, zip(*(sizes[place] for place in pack), strict=True)))


def rows_of_at_most(share: float, most: int = 500) -> st.SearchStrategy[list[Size]]:
    return st.lists(st.tuples(st.integers(1, int(share * most))), min_size=1, max_size=400)


some_sizes = st.lists(
    st.tuples(st.integers(0, 50), st.floats(0, 8, allow_nan=False)), min_size=1, max_size=200
)


@given(some_sizes)
def test_k8_each_subject_is_whole_in_one_pack_and_no_pack_is_too_large(
    sizes: list[Size],
) -> None:
    packs = packed(sizes, (50, 8.0))

    assert sorted(place for pack in packs for place in pack) == list(range(len(sizes)))
    for pack in packs:
        assert pack == sorted(pack), "in order of input"
        rows, cost = filled(pack, sizes)
        assert rows <= 50
        assert cost <= 8.0, "otherwise a limit of exactly 8 would refuse it"


def test_k8_a_pack_costs_no_more_than_its_bound_to_the_last_digit() -> None:
    costs = [0.2, 0.4, 0.3, 0.1]
    assert sum(costs) > 1.0

    assert packed([(1, cost) for cost in costs], (10, 1.0)) == [[0, 1, 2], [3]]


@given(rows_of_at_most(0.09))
def test_k8_small_subjects_make_at_most_a_tenth_more_calls_than_ideal_and_one(
    sizes: list[Size],
) -> None:
    assert len(packed(sizes, (500,))) <= 1.1 * sum(rows for (rows,) in sizes) / 500 + 1


@given(rows_of_at_most(1.0))
def test_k8_large_subjects_make_at_most_twice_as_many_calls_as_ideal_and_one(
    sizes: list[Size],
) -> None:
    assert len(packed(sizes, (500,))) <= 2 * sum(rows for (rows,) in sizes) / 500 + 1


@given(some_sizes)
def test_k8_each_pack_but_the_last_has_no_room_for_the_largest_subject(
    sizes: list[Size],
) -> None:
    most = (50, 8.0)
    largest = tuple(map(max, zip(*sizes, strict=True)))
    packs = sorted(packed(sizes, most))  # in the order in which they were opened

    for pack in packs[:-1]:
        rooms = (m - f for m, f in zip(most, filled(pack, sizes), strict=True))
        assert any(room <= size + 1e-9 for room, size in zip(rooms, largest, strict=True))


@given(some_sizes, st.integers(0, 200))
def test_k8_later_subjects_do_not_change_closed_packs(sizes: list[Size], place: int) -> None:
    packing, shorter = Packing[int]((50, 8.0)), sizes[:place]
    closed = [pack for at, size in enumerate(shorter) for pack in packing.add(at, size)]

    assert packed(sizes, (50, 8.0))[: len(closed)] == closed


def test_k8_few_packs_are_open_with_any_number_of_subjects() -> None:
    packing = Packing[int]((10,))
    closed = [pack for place in range(100) for pack in packing.add(place, (6,))]

    assert closed == [[place] for place in range(100 - OPEN_AT_ONCE)]


def test_k8_a_pack_that_is_full_is_sent_without_waiting_for_others() -> None:
    packing = Packing[str]((10, math.inf))

    assert list(packing.add("a", (4, 1.0))) == []
    assert list(packing.add("b", (6, 1.0))) == [["a", "b"]]
    assert list(packing.rest()) == []


@pytest.mark.parametrize(
    ("size", "fits"), [((10, 2.0), True), ((11, 1.0), False), ((1, 3.0), False)]
)
def test_k8_a_subject_larger_than_a_batch_does_not_fit(size: Size, fits: bool) -> None:
    assert Packing[str]((10, 2.0)).fits(size) is fits
