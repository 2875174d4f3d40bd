"""Histograms of the sizes of batches, and of how long their records had waited. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dispatcher.report._charts.svg import COLOURS, WIDTH, Frame, nice_step
from dispatcher.report.run import Run

BARS = 15
HALF = WIDTH / 2 - 10  # a phone has room for it, too


def sizes(run: Run, *, height: float = 110) -> Frame | None:
    """Batches by their number of records; None if that was not recorded."""
    counted = [float(one.records) for one in run.entries if one.records is not None]
    return _bars("Batches by number of records", counted, "records", 1.0, height)


def waits(run: Run, *, height: float = 110) -> Frame | None:
    """Batches by how long their oldest record had waited; None if that was not recorded."""
    noted = [one.waited for one in run.entries if one.waited is not None]
    return _bars("Batches by the wait of their oldest record", noted, "s", 0.0, height)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of the values does not exceed.

    >>> quantile([4, 1, 3, 2], 0.5)
    2
    """
    return sorted(values)[max(0, round(share * len(values)) - 1)]


def _bars(title: str, values: list[float], unit: str, least: float, height: float) -> Frame | None:
    if not values:
        return None
    step = max(least, nice_step(max(values) / BARS) if max(values) else 1.0)
    suffix = "" if least else f" {unit}"  # the title names the quantity
    counted = Counter(int(value / step) for value in values)
    last = max(counted) + 1
    most = max(counted.values())
    frame = Frame((0, last), (0, 1.1 * most), height=height, width=HALF)
    frame.title(title)
    frame.rule(0, "0")
    frame.rule(most, f"{most:,}")
    for bar, count in sorted(counted.items()):
        x, y = frame.x(bar), frame.y(count)
        span = f"{bar * step:g}" if least == step else f"{bar * step:g} to {(bar + 1) * step:g}"
        about = f"{span} {unit}: {count:,}"
        frame.box(x + 1, y, frame.x(bar + 1) - x - 2, frame.bottom - y, COLOURS[0], about)
    every = -(-last // 5)
    for bar in range(0, last, every):
        # Counts are centred below their bars, measures are where the bar begins.
        x = frame.x(bar + 0.5) if least == step else frame.x(bar)
        frame.text(x, frame.bottom + 18, f"{bar * step:g}{suffix}", anchor="middle")
    return frame
