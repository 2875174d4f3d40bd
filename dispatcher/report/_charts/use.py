"""What each instance spent in the period before, stacked, against the limit. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from dispatcher.report._charts.svg import INK, RED, Frame, amount, colour, short, steps
from dispatcher.report.run import Run

COLUMNS = 400
SHORTEST = 0.02


def use(run: Run, *, height: float = 200) -> Frame:
    """The chart. Each column is a window of one period that ends there: none of them rises
    above the line if no window was over."""
    start, end = run.span
    columns = max(1, min(COLUMNS, round((end - start) / SHORTEST)))
    width = (end - start) / columns or run.period
    ends = [start + width * (number + 1) for number in range(columns)]
    spent = {name: windows(run, name, ends) for name in run.instances}
    sums = [sum(column) for column in zip(*spent.values(), strict=True)] or [0.0]
    limits = [capacity for _, capacity in run.limits]
    top = 1.12 * max(*limits, *sums)
    frame = Frame((start, start + width * columns), (0.0, top), height=height)
    before = "second" if run.period == 1 else "period"
    frame.title(f"{short(run.title)}: cost in the {before} before")
    frame.rule(0, "0")
    frame.rule(limits[0] / 2, amount(limits[0] / 2))
    xs = [frame.x(start), *(frame.x(at) for at in ends)]
    below = [0.0] * columns
    for number, column in enumerate(spent.values()):
        above = [one + more for one, more in zip(below, column, strict=True)]
        low, high = [frame.y(one) for one in below], [frame.y(one) for one in above]
        frame.parts.append(steps(xs, low, high, colour(number)))
        below = above
    _limit(frame, run, start, ends[-1])
    if run.refused is not None:
        _refusals(frame, run.refused)
    frame.seconds(start)
    frame.legend(run.instances)
    return frame


def windows(run: Run, name: str, ends: list[float]) -> list[float]:
    """What `name` spent in the windows that end at `ends`."""
    own = sorted((one.at, one.cost) for one in run.entries if one.instance == name)
    times = [at for at, _ in own]
    sums = [0.0, *accumulate(cost for _, cost in own)]
    return [
        sums[bisect_right(times, at)] - sums[bisect_right(times, at - run.period)] for at in ends
    ]


def _limit(frame: Frame, run: Run, start: float, end: float) -> None:
    points: list[tuple[float, float]] = []
    before: float | None = None
    for at, capacity in run.limits:
        x = frame.x(min(max(at, start), end))
        points += [(x, frame.y(before))] if before is not None else []
        points.append((x, frame.y(capacity)))
        before = capacity
    assert before is not None
    frame.line([*points, (frame.right, frame.y(before))], INK, 2)
    first = run.limits[0][1]
    frame.text(frame.left - 8, frame.y(first) + 4, amount(first), anchor="end", weight="bold")


def _refusals(frame: Frame, refused: Sequence[float]) -> None:
    marks = "".join(f"M{frame.x(at):.1f} {frame.top}v9" for at in refused)
    frame.parts.append(f'<path d="{marks}" fill="none" stroke="{RED}" stroke-width="1"/>')
    said = f"{len(refused):,} refused" if refused else "none refused"
    frame.text(frame.right, frame.top - 16, said, anchor="end", fill=RED if refused else INK)
