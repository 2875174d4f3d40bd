"""Slots that are left over when shares are rounded down go to one instance after the other: laws N5
and V5."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from limiters.leases._coordinator.slots import drawn, line_of, lot_of, turn_of, turns_in
from limiters.leases._format import EPOCH_INTERVALS, LOT_BUCKETS, LOTS


def rights(parts: list[float], arrivals: list[int], epoch: int, slots: int) -> list[int]:
    lots = [lot_of(part, number, epoch) for part, number in zip(parts, arrivals, strict=True)]
    lot = drawn(
        Counter(one for one in lots if one < LOT_BUCKETS),
        slots - sum(math.floor(part) for part in parts),
    )
    return [math.floor(part) + (one < lot) for part, one in zip(parts, lots, strict=True)]


def crowd(seed: int) -> tuple[list[float], list[int], int]:
    random = Random(seed)
    count = random.randrange(1, 60)
    arrivals = random.sample(range(10**6), count)
    wanted = [random.choice([0.3, 1.0, 2.5]) for _ in range(count)]
    slots = random.randrange(1, 80)
    scale = min(1.0, slots / sum(wanted))
    return [scale * one for one in wanted], arrivals, slots


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_n1_the_rights_of_all_are_never_more_than_there_are_slots(seed: int, epoch: int) -> None:
    parts, arrivals, slots = crowd(seed)
    found = rights(parts, arrivals, epoch, slots)
    assert sum(found) <= slots
    for part, right in zip(parts, found, strict=True):
        assert math.floor(part) <= right <= math.ceil(part)


@given(st.integers(0, 10**6))
def test_n5_nearly_all_slots_belong_to_an_instance_by_right(seed: int) -> None:
    parts, arrivals, slots = crowd(seed)
    there = min(slots, math.floor(sum(parts) + 1e-9))
    found = [sum(rights(parts, arrivals, epoch, slots)) for epoch in range(100)]
    assert sum(found) / 100 >= there - 3 - 0.1 * there


def test_v5_in_the_long_run_each_has_the_fraction_that_was_rounded_off() -> None:
    for instances, slots in ((30, 50), (12, 3), (7, 20), (12, 20)):
        arrivals = list(range(77, 77 + instances))
        parts, had = [slots / instances] * instances, [0] * instances
        for epoch in range(200):
            for at, right in enumerate(rights(parts, arrivals, epoch, slots)):
                had[at] += right
        assert sum(had) == 200 * slots
        jain = sum(had) ** 2 / (instances * sum(one * one for one in had))
        assert jain >= 0.98, (instances, slots)


def test_n5_no_instance_waits_for_long() -> None:
    arrivals = list(range(5, 17))
    longest = dict.fromkeys(range(12), 0)
    waits = dict.fromkeys(range(12), 0)
    for epoch in range(300):
        for at, right in enumerate(rights([0.25] * 12, arrivals, epoch, 3)):
            waits[at] = 0 if right else waits[at] + 1
            longest[at] = max(longest[at], waits[at])
    assert max(longest.values()) <= 8, "about every fourth epoch"


def test_whole_shares_have_no_lot() -> None:
    assert lot_of(2.0, 7, 7) == LOT_BUCKETS
    assert rights([2.0, 1.0], [1, 2], 0, 3) == [2, 1]
    assert rights([0.5, 0.5], [1, 2], 0, 0) == [0, 0]


def test_a_turn_is_a_fixed_number_of_sync_intervals() -> None:
    assert turn_of(500) == 500 * EPOCH_INTERVALS
    assert turn_of(0) == EPOCH_INTERVALS


@given(
    st.dictionaries(st.integers(0, LOT_BUCKETS - 1), st.integers(1, 30)),
    st.integers(1, 60),
    st.integers(0, 60),
    st.integers(-10, 60),
)
def test_n1_turns_with_several_slots_fit_into_those_that_are_left(
    line: dict[int, int], whole: int, taken: int, saved: int
) -> None:
    left, lots = whole - taken, {LOT_BUCKETS + place: count for place, count in line.items()}
    end = turns_in(lots, left, 0, saved, whole)
    have = sorted(place for place in line if place < end)
    assert sum(line[place] for place in have) <= max(left, 0) or (left == whole and len(have) == 1)
    assert all(place < LOTS for place in have), "before its time none has what others have"
    assert sum(line[place] for place in have[:-1]) < max(saved, 1), "no more than is saved up for"
    first = min(line, default=LOT_BUCKETS)
    if left == whole and saved > 0 and first < LOTS:
        assert end > first, "the first in the line has its turn"


@given(st.floats(-3, 100), st.floats(-3, 100), st.integers(0, 10**6), st.integers(0, 10**6))
def test_c4_the_later_its_turn_is_the_further_in_front_is_an_instance(
    late: float, later: float, arrival: int, epoch: int
) -> None:
    late, later = sorted([late, later])
    behind, before = line_of(late, arrival, epoch), line_of(later, arrival, epoch)
    assert before <= behind < LOT_BUCKETS
    assert (before < LOTS) == (later >= 0)
