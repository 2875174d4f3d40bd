"""A limit as a map: a letter for each per cent of it, of the instance that holds it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.cli._commands.top.memory import ANY, LETTERS
from dispatcher.cli._commands.top.spans import Line, TextSpan

FREE = "."
CELLS = 100
WIDTHS = (100, 50, 25, 20, 10)
"""Possible widths of a row: so that equal positions stand below each other."""

COLOURS = ("cyan", "green", "yellow", "magenta", "blue")
"""Red is reserved for problems. Bright colours cannot be read on light terminals."""


def colour_of(letter: str) -> str:
    """Return the colour of a letter; neighbouring letters differ."""
    if letter == FREE:
        return "dim"
    return COLOURS[LETTERS.index(letter) % len(COLOURS)] if letter != ANY else "bold"


def cells(shares: Sequence[tuple[str, float]]) -> str:
    """Return a letter for each per cent, by (letter, share of the limit); the rest is free. Rounded
    so that all shares together have as many letters as they have per cents.

    >>> cells([("A", 0.02), ("B", 0.005), ("C", 0.015)]).rstrip(FREE)
    'AACC'
    """
    whole = [int(CELLS * share + 1e-6) for _, share in shares]
    left = round(CELLS * sum(share for _, share in shares)) - sum(whole)
    rest = [CELLS * share - count for (_, share), count in zip(shares, whole, strict=True)]
    for at in sorted(range(len(shares)), key=lambda at: (-round(rest[at], 6), -at))[:left]:
        whole[at] += 1
    letters = "".join(letter * count for (letter, _), count in zip(shares, whole, strict=True))
    return f"{letters[:CELLS]:{FREE}<{CELLS}}"


def row_of(width: int) -> int:
    """Return the number of letters in a row of `width`."""
    return next((wide for wide in WIDTHS if wide <= width), WIDTHS[-1])


def drawn(letters: str, width: int) -> list[Line]:
    """Return rows of letters, each in its colour."""
    lines: list[Line] = []
    for at in range(0, len(letters), width):
        spans: list[TextSpan] = []
        for letter in letters[at : at + width]:
            style = colour_of(letter)
            if spans and spans[-1].style == style:
                spans[-1] = TextSpan(spans[-1].text + letter, style)
            else:
                spans.append(TextSpan(letter, style))
        lines.append(spans)
    return lines
