"""Who held which partition when. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from dispatcher.report.run import Run
from dispatcher.report.svg import FAINT, Frame, colour
from limiters.leases import ranges

MOST_ROWS = 200
"""Of more partitions, only some are drawn, evenly chosen."""


def partitions(run: Run, *, height: float = 120) -> Frame:
    """The chart: a row for each partition, in the colour of who held it."""
    start, end = run.span
    count = partition_count(run)
    every = -(-count // MOST_ROWS)
    frame = Frame((start, end), (count, 0), height=height)
    frame.title(f"{run.title}: who holds which of {count:,} partitions")
    frame.box(frame.left, frame.top, frame.right - frame.left, height, FAINT)
    numbers = {name: number for number, name in enumerate(run.instances)}
    for index in range(0, count, every):
        high = frame.y(index)
        low = frame.y(min(count, index + every))
        for name, since, until in tenures(run, index):
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


def tenures(run: Run, index: int) -> Iterator[tuple[str, float, float]]:
    """Who held it, from when until when."""
    holder, since = None, 0.0
    for at, who in run.holdings:
        now = next((name for name, held in who.items() if ranges.holds(held, index)), None)
        if now != holder:
            if holder is not None:
                yield holder, since, at
            holder, since = now, at
    if holder is not None:
        yield holder, since, run.span[1]


def hand_overs(run: Run) -> int:
    """How often a partition went from one to another."""
    changes = 0
    for index in range(partition_count(run)):
        holders = [name for name, _, _ in tenures(run, index)]
        changes += sum(one != other for one, other in pairwise(holders))
    return changes
