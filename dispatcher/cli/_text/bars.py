"""Bars made of text. Pure."""

from __future__ import annotations

EIGHTHS = "▏▎▍▌▋▊▉█"
ASCII = "#"


def bar(part: float, whole: float, width: int, *, fine: bool = True) -> str:
    """Return a bar, `width` wide for all of `whole`; at least a mark for any amount.

    >>> bar(5, 10, 8), bar(1, 1_000, 8), bar(0, 10, 8), bar(5, 10, 8, fine=False)
    ('████', '▏', '', '####')
    """
    if part <= 0 or whole <= 0:
        return ""
    eighths = max(1, round(8 * width * min(1.0, part / whole)))
    if not fine:
        return ASCII * max(1, round(eighths / 8))
    full, rest = divmod(eighths, 8)
    return EIGHTHS[-1] * full + (EIGHTHS[rest - 1] if rest else "")
