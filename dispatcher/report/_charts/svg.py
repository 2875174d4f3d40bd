"""Charts as SVG: a frame with two scales, and what is drawn into it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Okabe and Ito's, which the colour-blind can tell apart."""

WIDTH, LEFT, RIGHT, TOP, BOTTOM, LEGEND = 920, 92, 12, 34, 26, 22
INK, FAINT, RED = "#24292f", "#d8dee4", "#c1121f"


def colour(number: int) -> str:
    """That of the instance with this number."""
    return COLOURS[number % len(COLOURS)]


class Frame:
    """The place of one chart, `height` high and `width` wide; x and y go from and to as said."""

    def __init__(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        *,
        height: float,
        width: float = WIDTH,
    ) -> None:
        self._x, self._y = x, y
        self.width = width
        self.left, self.right = float(LEFT), width - RIGHT
        self.top, self.bottom = TOP, TOP + height
        self.height = self.bottom + BOTTOM
        """With what stands above and below."""
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        """Where that is."""
        low, high = self._x
        share = (value - low) / (high - low) if high != low else 0.0
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """Where that is."""
        low, high = self._y
        share = (value - low) / (high - low) if high != low else 0.0
        return self.bottom - share * (self.bottom - self.top)

    def title(self, text: str) -> None:
        """Above it all."""
        self.text(4, TOP - 16, text, weight="bold")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        fill: str = INK,
        weight: str = "normal",
    ) -> None:
        """Writes `text`, at a place in the picture."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" '
            f'font-weight="{weight}">{escape(text)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, about: str = ""
    ) -> None:
        """Fills a rectangle, at a place in the picture; `about` is shown on pointing at it."""
        title = f"<title>{escape(about)}</title>" if about else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{fill}" shape-rendering="crispEdges">{title}</rect>'
        )

    def line(self, points: Sequence[tuple[float, float]], stroke: str, width: float = 1) -> None:
        """Joins points of the picture."""
        said = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(
            f'<polyline points="{said}" fill="none" stroke="{stroke}" stroke-width="{width:g}"/>'
        )

    def rule(self, value: float, label: str) -> None:
        """A faint line across, at a value of y."""
        y = self.y(value)
        self.line([(self.left, y), (self.right, y)], FAINT)
        self.text(self.left - 8, y + 4, label, anchor="end")

    def seconds(self, since: float) -> None:
        """The scale of x, as seconds since then."""
        low, high = self._x
        step = nice_step((high - low) / 8)
        for number in range(int((high - since) / step) + 1):
            x = self.x(since + number * step)
            self.line([(x, self.bottom), (x, self.bottom + 4)], INK)
            self.text(x, self.bottom + 18, f"{number * step:g} s", anchor="middle")

    def legend(self, names: Sequence[str]) -> None:
        """Who has which colour, in a line of its own below it all; as many as there is room for."""
        x, y = self.left, self.height + 12
        for number, name in enumerate(names):
            # Names of hosts differ at their end.
            said = name if len(name) <= 24 else f"…{name[-23:]}"
            ends = x + 8 * len(said) + 17
            last = number == len(names) - 1
            if ends > self.right - (0 if last else 90):
                self.text(x, y, f"and {len(names) - number:,} more")
                break
            self.box(x, y - 11, 12, 12, colour(number))
            self.text(x + 17, y, said)
            x = ends + 14
        self.height += LEGEND


def amount(value: float) -> str:
    """A cost, as it stands beside a chart.

    >>> amount(20_000), amount(1_234.5), amount(1.5)
    ('20,000', '1,234', '1.5')
    """
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


def short(title: str) -> str:
    """As much of it as there is room for."""
    return title if len(title) <= 60 else f"{title[:59]}…"


def steps(
    xs: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    fill: str,
    about: str = "",
) -> str:
    """The area between two stairs, whose steps begin at `xs`, of which there is one more; `about`
    is shown on pointing at it."""
    there = "".join(f"V{y:.1f}H{x:.1f}" for y, x in zip(high, xs[1:], strict=True))
    back = "".join(
        f"V{y:.1f}H{x:.1f}" for y, x in zip(reversed(low), reversed(xs[:-1]), strict=True)
    )
    title = f"<title>{escape(about)}</title>" if about else ""
    return f'<path d="M{xs[0]:.1f} {low[0]:.1f}{there}{back}Z" fill="{fill}">{title}</path>'


def nice_step(least: float) -> float:
    """The next larger of 1, 2, 5, 10, ...

    >>> nice_step(0.7), nice_step(3), nice_step(20)
    (1.0, 5.0, 20.0)
    """
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def picture(frames: Sequence[Frame], about: str) -> str:
    """One below the other, as one image that needs nothing else."""
    below, groups = 0.0, []
    for frame in frames:
        groups.append(f'<g transform="translate(0 {below:.1f})">{"".join(frame.parts)}</g>')
        below += frame.height + 14
    height = math.ceil(below)
    width = max(frame.width for frame in frames)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-family="system-ui, sans-serif" font-size="13">'
        f"<title>{escape(about)}</title>"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(groups)}</svg>'
    )
