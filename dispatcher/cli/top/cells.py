"""The partitions of a limit as a map: who holds which. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from dispatcher.cli.top.memory import ANY, LETTERS
from dispatcher.cli.top.spans import Line, Span

FREE = "."
ROWS = 4

COLOURS = (
    "cyan",
    "green",
    "yellow",
    "magenta",
    "blue",
    "bright_cyan",
    "bright_green",
    "bright_blue",
)


def colour_of(letter: str) -> str:
    """Letters next to each other differ in colour."""
    if letter == FREE:
        return "dim"
    return COLOURS[LETTERS.index(letter) % len(COLOURS)] if letter != ANY else "white"


def cells(holders: Sequence[str], width: int, rows: int = ROWS) -> tuple[str, int]:
    """A letter for each partition, or for the same number of them, whoever holds most of those;
    and that number.

    >>> cells("AAB.", 10), cells("AAB....B", 2, rows=2)
    (('AAB.', 1), ('AB.B', 2))
    """
    each = max(1, math.ceil(len(holders) / (width * rows)))
    groups = [holders[at : at + each] for at in range(0, len(holders), each)]
    return "".join(most_common(group) for group in groups), each


def most_common(group: Sequence[str]) -> str:
    """Whoever holds most of it; a holder counts more than nobody if both are equal."""
    counts = Counter(group)
    return max(counts, key=lambda letter: (counts[letter], letter != FREE))


def drawn(letters: str, width: int) -> list[Line]:
    """Rows of letters, each in its colour."""
    lines: list[Line] = []
    for at in range(0, len(letters), width):
        spans: list[Span] = []
        for letter in letters[at : at + width]:
            style = colour_of(letter)
            if spans and spans[-1].style == style:
                spans[-1] = Span(spans[-1].text + letter, style)
            else:
                spans.append(Span(letter, style))
        lines.append(spans)
    return lines
