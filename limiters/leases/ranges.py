"""Sets of partitions, written as ranges: "0-4,7". Pure.

A holder has one range or a few, however many partitions there are, so what is done to a
set takes as long as it has ranges. The same functions stand in lua/ranges.lua.
"""

from __future__ import annotations

Ranges = tuple[tuple[int, int], ...]
"""Disjoint, in order, and never touching: (first, last) of each."""

EMPTY: Ranges = ()


def parse(text: str) -> Ranges:
    """The set that `text` names.

    >>> parse("0-4,7")
    ((0, 4), (7, 7))
    """
    pairs = (part.partition("-") for part in text.split(",") if part)
    return tuple((int(first), int(last or first)) for first, _, last in pairs)


def text(ranges: Ranges) -> str:
    """How it is written.

    >>> text(((0, 4), (7, 7)))
    '0-4,7'
    """
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def span(first: int, end: int) -> Ranges:
    """Everything from `first` up to, not including, `end`."""
    return ((first, end - 1),) if first < end else EMPTY


def count(ranges: Ranges) -> int:
    """How many partitions it has."""
    return sum(last - first + 1 for first, last in ranges)


def count_below(ranges: Ranges, end: int) -> int:
    """How many partitions it has below `end`."""
    return sum(min(last, end - 1) - first + 1 for first, last in ranges if first < end)


def holds(ranges: Ranges, index: int) -> bool:
    """Whether `index` is in it."""
    return any(first <= index <= last for first, last in ranges)


def indexes(ranges: Ranges) -> list[int]:
    """Each partition, in order."""
    return [index for first, last in ranges for index in range(first, last + 1)]


def union(one: Ranges, other: Ranges) -> Ranges:
    """What is in either."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(one + other):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def without(one: Ranges, other: Ranges) -> Ranges:
    """What is in `one` and not in `other`."""
    left: list[tuple[int, int]] = []
    at = 0
    for first, last in one:
        while at < len(other) and other[at][1] < first:
            at += 1
        cut = at
        while cut < len(other) and other[cut][0] <= last:
            if first < other[cut][0]:
                left.append((first, other[cut][0] - 1))
            first = other[cut][1] + 1
            cut += 1
        if first <= last:
            left.append((first, last))
    return tuple(left)


def common(one: Ranges, other: Ranges) -> Ranges:
    """What is in both."""
    return without(one, without(one, other))


def lowest(ranges: Ranges, most: int) -> Ranges:
    """Its `most` lowest partitions."""
    taken: list[tuple[int, int]] = []
    for first, last in ranges:
        if most <= 0:
            break
        last = min(last, first + most - 1)
        taken.append((first, last))
        most -= last - first + 1
    return tuple(taken)


def highest(ranges: Ranges, most: int) -> Ranges:
    """Its `most` highest partitions."""
    return without(ranges, lowest(ranges, count(ranges) - most))
