"""`dispatcher timeline histogram`: how many messages are due when."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from itertools import groupby

from dispatcher.cli._commands.timeline.opening import now_ms, opened
from dispatcher.cli._commands.timeline.options import MOST_BARS, HistogramOptions
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import Row, TablePage, fine_letters, show, terminal_width
from dispatcher.cli._text.bars import bar
from dispatcher.cli._text.moments import When, shown
from dispatcher.cli._text.showable import printable
from dispatcher.timeline._encoding.times import EARLIEST, LATEST

HOUR = When(3_600_000, relative=True)
NOW = When(0, relative=True)

STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400)

LONGEST_GAP = 3
"""How many empty steps in a row are shown one by one."""

ALWAYS = (-LATEST + 1, LATEST - 1)


def run(options: HistogramOptions, call: Invocation) -> None:
    with opened(options) as timeline:
        now = now_ms(timeline)
        start = (options.start or NOW).at(now)
        end = start + HOUR.ms if options.end is None else options.end.at(now)
        if end <= start:
            raise ValueError(f"--to must be after --from: {shown(end)} is not after {shown(start)}")
        step = options.step
        if step is None:
            step = step_for((end - start) / 1000)
            start = int(start - start % (step * 1000))
        steps = timeline.histogram(start, end, step, options.state)
        before = timeline.count(ALWAYS[0], start, options.state)
        after = timeline.count(end, ALWAYS[1], options.state)
    if options.json:
        told = {"topic": options.topic, "step": step, "before": before, "steps": steps}
        sys.stdout.write(json.dumps(told | {"end": end, "after": after}) + "\n")
        return
    title = f"topic {printable(options.topic)}, {options.state or 'all that live'}"
    show(page(title, steps, before, after, terminal_width(), fine=fine_letters()))


def step_for(seconds: float) -> float:
    """Return the length of a step, so that there are not too many.

    >>> step_for(3_600), step_for(10), step_for(10 * 86_400)
    (120, 1, 43200)
    """
    least = seconds / MOST_BARS
    found = next((step for step in STEPS if step >= least), None)
    return found or math.ceil(least / STEPS[-1]) * STEPS[-1]


def page(
    title: str,
    steps: Sequence[tuple[int, int]],
    before: int,
    after: int,
    width: int,
    *,
    fine: bool = True,
) -> TablePage:
    """Return a bar for each step, one line for a long gap, and numbers for the time before and
    after."""
    most = max((number for _, number in steps), default=0)
    numbers = [before, after, *(number for _, number in steps)]
    wide = max(len("number"), *(len(f"{number:,}") for number in numbers))
    room = max(10, width - len(shown(EARLIEST)) - wide - 4)
    rows = [Row(("before", f"{before:,}", ""))] if before else []
    for empty, run in groupby(steps, key=lambda step: not step[1]):
        bars = [Row((shown(at), f"{n:,}", bar(n, most, room, fine=fine))) for at, n in run]
        if empty and len(bars) > LONGEST_GAP:
            bars = [Row((bars[0].cells[0], "0", f"none in the next {len(bars) - 1:,}"))]
        rows += bars
    rows += [Row(("after", f"{after:,}", ""))] if after else []
    return TablePage(
        ("from", ">number", ""), rows, (title, ""), ("", f"{sum(numbers):,} altogether")
    )
