"""Draws runs from what was spent when: use of the capacity by instance, and batch sizes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe and Ito's, which the colour-blind can tell apart."""

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 300, 70, 40, 20
SLICE = 0.1
"""Seconds that one column is for."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run, and what was written in it: (when, by whom, at what cost, how many records)."""

    title: str
    capacity: float
    entries: Sequence[tuple[float, str, float, int]]


def page(runs: Sequence[Run]) -> str:
    """All of it, as a file for a browser."""
    parts = [
        f"<h2>{escape(run.title)}</h2><p>Cost in the second before, by instance; the "
        f"line is the limit.</p>{use(run)}{sizes(run)}"
        for run in runs
    ]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Use of a shared limit</title>"
        "<style>body{font:16px sans-serif;max-width:940px;margin:2em auto;color:#222}"
        "svg{font:13px sans-serif;display:block;margin:1em 0}</style>"
        f"<h1>Use of a shared limit</h1>{''.join(parts)}</html>\n"
    )


def use(run: Run) -> str:
    """What each instance spent in the second before, stacked, against the limit."""
    if not run.entries:
        return "<p>Nothing was written.</p>"
    began = min(at for at, *_ in run.entries)
    columns = int((max(at for at, *_ in run.entries) - began) / SLICE) + 1
    names = sorted({who for _, who, *_ in run.entries})
    spent = {name: [0.0] * columns for name in names}
    for at, who, cost, _ in run.entries:
        first = int((at - began) / SLICE)
        for column in range(first, min(columns, first + round(1 / SLICE))):
            spent[who][column] += cost
    sums = [sum(spent[name][at] for name in names) for at in range(columns)]
    top = 1.15 * max(run.capacity, *sums)
    width = (WIDTH - LEFT - 10) / columns
    shapes = []
    for at in range(columns):
        y = float(HEIGHT - BOTTOM)
        for number, name in enumerate(names):
            height = spent[name][at] / top * (HEIGHT - BOTTOM - TOP)
            y -= height
            if height:
                shapes.append(
                    f'<rect x="{LEFT + at * width:.1f}" y="{y:.1f}" width="{width:.2f}" '
                    f'height="{height:.1f}" fill="{COLOURS[number % len(COLOURS)]}"/>'
                )
    limit = HEIGHT - BOTTOM - run.capacity / top * (HEIGHT - BOTTOM - TOP)
    shapes.append(
        f'<line x1="{LEFT}" x2="{WIDTH - 10}" y1="{limit:.1f}" y2="{limit:.1f}" '
        f'stroke="#111" stroke-width="2"/>'
        + _text(LEFT - 6, limit + 4, f"{run.capacity:,.0f}", "end")
        + _text(LEFT - 6, HEIGHT - BOTTOM + 4, "0", "end")
    )
    seconds = columns * SLICE
    step = max(1, round(seconds / 8))
    for second in range(0, int(seconds) + 1, step):
        x = LEFT + second / SLICE * width
        shapes.append(_text(x, HEIGHT - BOTTOM + 18, f"{second} s", "middle"))
    for number, name in enumerate(names):
        x = LEFT + number * 200
        shapes.append(
            f'<rect x="{x}" y="{HEIGHT - 14}" width="12" height="12" '
            f'fill="{COLOURS[number % len(COLOURS)]}"/>' + _text(x + 18, HEIGHT - 3, name)
        )
    return _svg(
        f"{run.title}: cost in the second before, by instance; the line is the limit", shapes
    )


def sizes(run: Run) -> str:
    """How many batches were of which size, in words: mostly there is one."""
    counted = Counter(records for *_, records in run.entries)
    words = ", ".join(f"{count:,} of {size}" for size, count in counted.most_common(5))
    return f"<p>Batches: {words or 'none'}.</p>"


def _svg(title: str, shapes: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" role="img" font-family="sans-serif" font-size="13">'
        f"<title>{escape(title)}</title>{''.join(shapes)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#222">{escape(text)}</text>'
