"""Charts as SVG: a frame with two scales, and the elements in it. Pure."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Sequence

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""The palette of Okabe and Ito, which the colour-blind can distinguish."""

WIDTH, LEFT, RIGHT, TOP, BOTTOM, LEGEND = 920, 92, 12, 34, 26, 22
NARROW = 380
"""The width for a phone."""
IMAGE = 520
"""The width of a picture for all screens: on a phone its letters are still nine pixels high."""
LEGEND_LINES = 3
MARK = "4 3"
"""The dash pattern of a mark."""

STYLE = (
    ".paper{fill:#fff}.ink{fill:#24292f}.faint{fill:#d8dee4}.red{fill:#c1121f}"
    ".axis{stroke:#24292f}.rule{stroke:#d8dee4}.refusal{stroke:#c1121f}"
    "@media(prefers-color-scheme:dark){.paper{fill:#0d1117}.ink{fill:#e6edf3}.faint{fill:#30363d}"
    ".red{fill:#ff7b72}.axis{stroke:#e6edf3}.rule{stroke:#30363d}.refusal{stroke:#ff7b72}}"
)
"""All colours but those of the instances, for light and dark screens."""

NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML document may contain, not even escaped."""


def escape(text: str) -> str:
    r"""Escape text for an SVG or a page.

    >>> escape("<b>\x1b[0m")
    '&lt;b&gt;?[0m'
    """
    return html.escape(NOT_XML.sub("?", text))


def colour(number: int) -> str:
    """Return the colour of the instance with this number."""
    return COLOURS[number % len(COLOURS)]


class Frame:
    """The frame of one chart, `height` high and `width` wide, with the ranges of x and y."""

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
        """Total height, with the title above and the legend below."""
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        low, high = self._x
        share = (value - low) / (high - low) if high != low else 0.0
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        low, high = self._y
        share = (value - low) / (high - low) if high != low else 0.0
        return self.bottom - share * (self.bottom - self.top)

    def title(self, text: str) -> None:
        """Write the title above the chart."""
        self.text(4, TOP - 16, text, weight="bold")

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        kind: str = "ink",
        weight: str = "normal",
    ) -> None:
        """Write `text` at a position in the picture."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}" '
            f'font-weight="{weight}">{escape(text)}</text>'
        )

    def box(
        self, x: float, y: float, width: float, height: float, paint: str, about: str = ""
    ) -> None:
        """Fill a rectangle at a position in the picture; `about` is its tooltip. `paint` is a
        colour or, without its #, a class."""
        title = f"<title>{escape(about)}</title>" if about else ""
        filled = f'fill="{paint}"' if paint.startswith("#") else f'class="{paint}"'
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.2f}" height="{height:.2f}" '
            f'{filled} shape-rendering="crispEdges">{title}</rect>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], kind: str, width: float = 1, dash: str = ""
    ) -> None:
        """Draw a line through positions in the picture."""
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{at}" fill="none" class="{kind}" stroke-width="{width:g}"{dashed}/>'
        )

    def rule(self, value: float, label: str) -> None:
        """Draw a faint horizontal line at a value of y."""
        y = self.y(value)
        self.line([(self.left, y), (self.right, y)], "rule")
        self.text(self.left - 8, y + 4, label, anchor="end")

    def seconds(self, since: float) -> None:
        """Draw the scale of x, in seconds since `since`."""
        low, high = self._x
        step = nice_step((high - low) * 90 / (self.right - self.left))
        for number in range(int((high - since) / step) + 1):
            x = self.x(since + number * step)
            self.line([(x, self.bottom), (x, self.bottom + 4)], "axis")
            self.text(x, self.bottom + 18, f"{number * step:g} s", anchor="middle")

    def marks(self, marks: Sequence[tuple[float, str]]) -> None:
        """Draw vertical lines at values of x."""
        for at, _ in marks:
            self.line([(self.x(at), self.top), (self.x(at), self.bottom)], "axis", 1.5, MARK)

    def legend(self, names: Sequence[str], marks: Sequence[tuple[float, str]] = ()) -> None:
        """Write the legend below the chart: the colours of the instances, and the marks; as many as
        fit into a few lines."""
        entries = [(name, colour(number)) for number, name in enumerate(names)]
        entries += [(text, "") for text in dict.fromkeys(text for _, text in marks)]
        x, lines = self.left, 1
        for number, (name, paint) in enumerate(entries):
            # Host names differ at their end.
            shown = name if len(name) <= 24 else f"…{name[-23:]}"
            ends = x + 8 * len(shown) + 17
            last = number == len(entries) - 1
            room = self.right - (0 if last or lines < LEGEND_LINES else 90)
            if ends > room and x > self.left and lines < LEGEND_LINES:
                ends += self.left - x
                x, lines = self.left, lines + 1
                room = self.right - (0 if last or lines < LEGEND_LINES else 90)
            y = self.height + 12 + LEGEND * (lines - 1)
            if ends > room:
                self.text(x, y, f"and {len(entries) - number:,} more")
                break
            if paint:
                self.box(x, y - 11, 12, 12, paint)
            else:
                self.line([(x + 6, y - 12), (x + 6, y + 2)], "axis", 1.5, MARK)
            self.text(x + 17, y, shown)
            x = ends + 14
        self.height += LEGEND * lines


def amount(value: float) -> str:
    """Return a cost as it is written in a chart.

    >>> amount(20_000), amount(1_234.5), amount(1.5)
    ('20,000', '1,234', '1.5')
    """
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.4g}"


def short(title: str, width: float) -> str:
    """Shorten a title to the room that a chart of this width has for it."""
    room = min(60, int(width / 8) - 42)
    return title if len(title) <= room else f"{title[: room - 1]}…"


def steps(
    xs: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    fill: str,
    about: str = "",
) -> str:
    """Draw the area between two step lines, whose steps begin at `xs`, which has one more entry;
    `about` is its tooltip."""
    there = "".join(f"V{y:.1f}H{x:.1f}" for y, x in zip(high, xs[1:], strict=True))
    back = "".join(
        f"V{y:.1f}H{x:.1f}" for y, x in zip(reversed(low), reversed(xs[:-1]), strict=True)
    )
    title = f"<title>{escape(about)}</title>" if about else ""
    return f'<path d="M{xs[0]:.1f} {low[0]:.1f}{there}{back}Z" fill="{fill}">{title}</path>'


def nice_step(least: float) -> float:
    """Return the next larger of 1, 2, 5, 10, ...

    >>> nice_step(0.7), nice_step(3), nice_step(20)
    (1.0, 5.0, 20.0)
    """
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * (1 - 1e-9))


def picture(frames: Sequence[Frame], about: str) -> str:
    """Combine frames, one below the other, into one self-contained image."""
    below, groups = 0.0, []
    for frame in frames:
        groups.append(f'<g transform="translate(0 {below:.1f})">{"".join(frame.parts)}</g>')
        below += frame.height + 14
    height = math.ceil(below)
    width = max(frame.width for frame in frames)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-family="system-ui, sans-serif" font-size="13">'
        f"<title>{escape(about)}</title><style>{STYLE}</style>"
        f'<rect width="{width}" height="{height}" class="paper"/>{"".join(groups)}</svg>'
    )
