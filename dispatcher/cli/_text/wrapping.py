"""Long texts in lines of a given width. Pure."""

from __future__ import annotations

import re

_ENDS = re.compile(
    r"(?<= )|(?<=,)(?=[^\s\d])|(?<=:)(?=(?:burst|counts|max_operation_time|strict)=)"
)
"""A line may end after a space, after the comma between two dimensions, but not in a number, and
before an option of a dimension."""


def wrapped_text(text: str, width: int) -> list[str]:
    """Return the lines; a piece that is longer than a line is broken anywhere.

    >>> wrapped_text("limit llm: requests=600/60s,tokens=90000/60s, at most 9,000", 30)
    ['limit llm: requests=600/60s,', 'tokens=90000/60s, at most', '9,000']
    """
    width, lines = max(width, 1), [""]
    for piece in _ENDS.split(text):
        if len((lines[-1] + piece).rstrip()) > width and lines[-1]:
            lines.append("")
        while len(piece.rstrip()) > width:
            lines[-1:] = [piece[:width], ""]
            piece = piece[width:]
        lines[-1] += piece
    return [line.rstrip() for line in lines]


def breakable(text: str) -> str:
    """Return the text with a space where a line may end: for what breaks lines at spaces only.

    >>> breakable("tokens=5/60s:counts=end")
    'tokens=5/60s: counts=end'
    >>> breakable("requests=600/60s,tokens=90000/60s, at most 9,000")
    'requests=600/60s, tokens=90000/60s, at most 9,000'
    """
    return " ".join(piece.rstrip() for piece in _ENDS.split(text))
