"""Every function on ranges against the same on Python's sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from limiters.leases import ranges
from limiters.leases.ranges import EMPTY, Ranges

partitions = st.frozensets(st.integers(0, 40))
counts = st.integers(-3, 50)


def of(numbers: frozenset[int] | set[int]) -> Ranges:
    """The ranges of a set, built without the functions under test."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return tuple((first, last) for first, last in found)


@given(partitions)
def test_written_and_read_again_it_is_the_same(numbers: frozenset[int]) -> None:
    assert ranges.parse(ranges.text(of(numbers))) == of(numbers)


def test_nothing_is_written_as_nothing() -> None:
    assert ranges.text(EMPTY) == ""
    assert ranges.parse("") == EMPTY
    assert ranges.parse("0,2-9999") == ((0, 0), (2, 9999))


@given(counts, counts)
def test_span(first: int, end: int) -> None:
    assert ranges.span(first, end) == of(set(range(first, end)))


@given(partitions)
def test_count_indexes_and_holds(numbers: frozenset[int]) -> None:
    assert ranges.count(of(numbers)) == len(numbers)
    assert ranges.indexes(of(numbers)) == sorted(numbers)
    for index in range(-1, 42):
        assert ranges.holds(of(numbers), index) == (index in numbers)


@given(partitions, partitions)
def test_union_without_and_common(one: frozenset[int], other: frozenset[int]) -> None:
    assert ranges.union(of(one), of(other)) == of(one | other)
    assert ranges.without(of(one), of(other)) == of(one - other)
    assert ranges.common(of(one), of(other)) == of(one & other)


@given(partitions, counts)
def test_lowest_and_highest(numbers: frozenset[int], most: int) -> None:
    wanted = max(0, most)
    in_order = sorted(numbers)
    assert ranges.lowest(of(numbers), most) == of(set(in_order[:wanted]))
    assert ranges.highest(of(numbers), most) == of(set(in_order[::-1][:wanted]))
