"""Who held which partition when. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from dispatcher.report.run import Run
from dispatcher.report.svg import FAINT, Frame, colour, short
from limiters.leases import ranges
from limiters.leases.ranges import Ranges

Tenure = tuple[str, float, float]
"""Who held a partition, from when until when."""

MOST_ROWS = 200
"""Of more partitions, only some are drawn, evenly chosen."""


def partitions(run: Run, *, height: float = 120) -> Frame:
    """The chart: a row for each partition, in the colour of who held it."""
    start, end = run.span
    count = partition_count(run)
    every = -(-count // MOST_ROWS)
    frame = Frame((start, end), (count, 0), height=height)
    frame.title(f"{short(run.title)}: who holds which of {count:,} partitions")
    frame.box(frame.left, frame.top, frame.right - frame.left, height, FAINT)
    numbers = {name: number for number, name in enumerate(run.instances)}
    held = tenures(run)
    for index in range(0, count, every):
        high = frame.y(index)
        low = frame.y(min(count, index + every))
        for name, since, until in held[index]:
            x = frame.x(since)
            about = f"partition {index}: {name}, {since - start:.2f} s to {until - start:.2f} s"
            frame.box(x, high, frame.x(until) - x, low - high, colour(numbers[name]), about)
    frame.text(frame.left - 8, frame.top + 10, "0", anchor="end")
    frame.text(frame.left - 8, frame.bottom, f"{count - 1:,}", anchor="end")
    frame.seconds(start)
    frame.legend(run.instances)
    return frame


def partition_count(run: Run) -> int:
    """How many there are, as far as somebody held them."""
    lasts = (last for _, who in run.holdings for held in who.values() for _, last in held)
    return max(lasts, default=0) + 1


def tenures(run: Run) -> list[list[Tenure]]:
    """Of each partition: who held it, from when until when."""
    found: list[list[Tenure]] = [[] for _ in range(partition_count(run))]
    holders: dict[int, tuple[str, float]] = {}
    before: Mapping[str, Ranges] = {}

    def ends(index: int, at: float) -> None:
        if index in holders:
            found[index].append((*holders.pop(index), at))

    # Only what has changed between two looks: there may be ten thousand partitions.
    for at, who in run.holdings:
        for name, held in before.items():
            for index in ranges.indexes(ranges.without(held, who.get(name, ranges.EMPTY))):
                ends(index, at)
        for name, held in who.items():
            for index in ranges.indexes(ranges.without(held, before.get(name, ranges.EMPTY))):
                ends(index, at)
                holders[index] = name, at
        before = who
    end = run.span[1]
    for index in list(holders):
        ends(index, end)
    return found


def hand_overs(run: Run) -> int:
    """How often a partition went from one to another."""
    return sum(one != other for held in tenures(run) for (one, *_), (other, *_) in pairwise(held))
