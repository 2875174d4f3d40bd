"""Lines of text with styled parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wrapping import wrapped_text


class TextSpan(NamedTuple):
    """A piece of text; `style` is how it looks where there is colour, in rich's words."""

    text: str
    style: str = ""


Line = Sequence[TextSpan]


def line(text: str, style: str = "") -> Line:
    """Return a line of one part."""
    return [TextSpan(text, style)]


def wrapped(text: str, width: int, style: str = "") -> list[Line]:
    """Wrap words into lines.

    >>> plain(wrapped("a b c d", 3))
    'a b\\nc d\\n'
    """
    return [line(part, style) for part in wrapped_text(text, width)]


def plain(lines: Iterable[Line]) -> str:
    """Return lines as text without styles.

    >>> plain([[TextSpan("a", "red"), TextSpan("b")], line("c")])
    'ab\\nc\\n'
    """
    return "".join(f"{printable(''.join(span.text for span in one)).rstrip()}\n" for one in lines)


def cropped(one: Line, width: int) -> list[TextSpan]:
    """Crop a line to `width`.

    >>> cropped([TextSpan("abc"), TextSpan("def", "red")], 4)
    [TextSpan(text='abc', style=''), TextSpan(text='d', style='red')]
    """
    kept = []
    for span in one:
        if width <= 0:
            break
        kept.append(TextSpan(span.text[:width], span.style))
        width -= len(span.text)
    return kept


def fitted(lines: Sequence[Line], width: int, height: int | None) -> list[Line]:
    """Crop lines to the screen; the last line says how many more there are."""
    kept = [cropped(one, width) for one in lines]
    if height is None or len(kept) <= height:
        return list(kept)
    more = f"... {len(kept) - height + 1} more lines: --once shows all of them"
    return [*kept[: height - 1], cropped(line(more, "dim"), width)]
