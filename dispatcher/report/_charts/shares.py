"""Chart of each instance's share of the limit over time. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from dispatcher.report._charts.svg import WIDTH, Frame, colour, steps
from dispatcher.report._charts.use import SHORTEST, span, titled
from dispatcher.report.run import Run


def shares(
    run: Run,
    among: Sequence[Run] = (),
    *,
    name: str | None = None,
    width: float = WIDTH,
    height: float = 120,
) -> Frame:
    """Draw the shares of all instances, stacked; the grey part is held by none. For `among` and
    `name` see `use`."""
    start, end = span(run, among)
    columns = max(1, min(int(width * 0.44), round((end - start) / SHORTEST)))
    step = (end - start) / columns or run.period
    begins = [start + step * number for number in range(columns)]
    frame = Frame((start, start + step * columns), (0.0, 1.0), height=height, width=width)
    whole = "the limit" if run.partitions is None else shown(run, 1.0)
    frame.title(titled(run, name, f"who holds how much of {whole}", width))
    frame.box(frame.left, frame.top, frame.right - frame.left, height, "faint")
    xs = [frame.x(at) for at in [*begins, start + step * columns]]
    below = [0.0] * columns
    for number, instance in enumerate(run.instances):
        held = held_at(run, instance, begins)
        if any(held):
            above = [one + more for one, more in zip(below, held, strict=True)]
            low, high = [frame.y(one) for one in below], [frame.y(one) for one in above]
            about = f"{instance}: {shown(run, max(held))} at most"
            frame.parts.append(steps(xs, low, high, colour(number), about))
            below = above
    for share in (0.0, 0.5, 1.0):
        frame.rule(share, shown(run, share).partition(" partition")[0])
    frame.marks(run.marks)
    frame.seconds(start)
    frame.legend(run.instances, run.marks)
    return frame


def held_at(run: Run, name: str, times: list[float]) -> list[float]:
    """Return the last seen share of `name` at each of the times."""
    looks = [at for at, _ in run.holdings]
    seen = [bisect_right(looks, at) - 1 for at in times]
    return [run.holdings[look][1].get(name, 0.0) if look >= 0 else 0.0 for look in seen]


def granted_again(run: Run) -> float:
    """Return how much was granted, in shares of the limit, after an instance had given it back."""
    granted = most = 0.0
    before: dict[str, float] = {}
    for _, who in run.holdings:
        granted += sum(max(0.0, held - before.get(name, 0.0)) for name, held in who.items())
        most = max(most, sum(who.values()))
        before = dict(who)
    return max(0.0, granted - most)


def shown(run: Run, share: float) -> str:
    """Return a share in partitions, if their number is given, or in percent.

    >>> shown(Run("one", 100, [], partitions=20), 1 / 3), shown(Run("one", 100, []), 1 / 3)
    ('6.7 partitions', '33 %')
    """
    if run.partitions is None:
        return f"{100 * share:.0f} %"
    number = f"{share * run.partitions:,.1f}".removesuffix(".0")
    return f"{number} partition{'s' * (number != '1')}"
