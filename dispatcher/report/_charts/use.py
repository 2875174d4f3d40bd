"""Chart of what each instance spent in the period before, stacked, against the limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.report._charts.svg import WIDTH, Frame, amount, colour, short, steps
from dispatcher.report.run import Run

SHORTEST = 0.02


def use(
    run: Run,
    among: Sequence[Run] = (),
    *,
    name: str | None = None,
    width: float = WIDTH,
    height: float = 200,
) -> Frame:
    """Draw the chart. Each column is a window of one period that ends there: none rises above the
    line if no window was over the limit. Charts of runs `among` the same ones have the same axes.
    `name`: begins the title, instead of the run's title."""
    start, end = span(run, among)
    columns = max(1, min(int(width * 0.44), round((end - start) / SHORTEST)))
    step = (end - start) / columns or run.period
    ends = [start + step * (number + 1) for number in range(columns)]
    limits = [capacity for _, capacity in run.limits]
    top = 1.12 * max(_fullest(one) for one in (run, *among))
    frame = Frame((start, start + step * columns), (0.0, top), height=height, width=width)
    frame.title(titled(run, name, run.quantity, width))
    frame.rule(0, "0")
    frame.rule(limits[0] / 2, amount(limits[0] / 2))
    xs = [frame.x(start), *(frame.x(at) for at in ends)]
    below = [0.0] * columns
    for number, instance in enumerate(run.instances):
        column = run.columns(instance, ends)
        above = [one + more for one, more in zip(below, column, strict=True)]
        low, high = [frame.y(one) for one in below], [frame.y(one) for one in above]
        frame.parts.append(steps(xs, low, high, colour(number)))
        below = above
    _limit(frame, run, start, ends[-1])
    if run.refused is not None:
        _refusals(frame, run.refused)
    frame.marks(run.marks)
    frame.seconds(start)
    frame.legend(run.instances, run.marks)
    return frame


def span(run: Run, among: Sequence[Run]) -> tuple[float, float]:
    """Return the range of times, as long as the longest run."""
    start, _ = run.span
    return start, start + max(end - begin for begin, end in (one.span for one in (run, *among)))


def titled(run: Run, name: str | None, what: str, width: float) -> str:
    """Return the title of a chart of that run."""
    name = run.title if name is None else name
    return f"{short(name, width)}: {what}" if name else what


def _fullest(run: Run) -> float:
    """Return the most that was spent in a period, or the limit if that is more."""
    return max(capacity for _, capacity in run.limits) * max(1.0, run.verdict.worst)


def _limit(frame: Frame, run: Run, start: float, end: float) -> None:
    points: list[tuple[float, float]] = []
    before: float | None = None
    for at, capacity in run.limits:
        x = frame.x(min(max(at, start), end))
        points += [(x, frame.y(before))] if before is not None else []
        points.append((x, frame.y(capacity)))
        before = capacity
    assert before is not None
    frame.line([*points, (frame.right, frame.y(before))], "axis", 2)
    first = run.limits[0][1]
    frame.text(frame.left - 8, frame.y(first) + 4, amount(first), anchor="end", weight="bold")


def _refusals(frame: Frame, refused: Sequence[float]) -> None:
    marks = "".join(f"M{frame.x(at):.1f} {frame.top}v9" for at in refused)
    frame.parts.append(f'<path d="{marks}" fill="none" class="refusal" stroke-width="1"/>')
    count = f"{len(refused):,} refused" if refused else "none refused"
    kind = "red" if refused else "ink"
    frame.text(frame.right, frame.top - 16, count, anchor="end", kind=kind)
