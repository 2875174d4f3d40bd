"""Reads costs in several dimensions from one text, as the options of a format have them."""

from __future__ import annotations

from limiters._support.validation import ArgumentError


def cost_in(option: str, text: str) -> float | str | dict[str, float | str]:
    """Return the cost of a row: a number, an expression of columns, or one of them for each
    dimension.

    >>> cost_in("cost", "2.5"), cost_in("cost", "size / 4")
    (2.5, 'size / 4')
    >>> cost_in("cost", "requests=1, tokens=size/4")
    {'requests': 1.0, 'tokens': 'size/4'}
    """
    if "=" not in text:
        return _price(text)
    return {name: _price(one) for name, one in _parts(option, text, "requests=1, tokens=size/4")}


def amounts_in(option: str, text: str) -> float | dict[str, float]:
    """Return a number, or one for each dimension.

    >>> amounts_in("batchCost", "1"), amounts_in("batchCost", "requests=1, calls=1")
    (1.0, {'requests': 1.0, 'calls': 1.0})
    """
    if "=" not in text:
        return _number(option, text)
    return {name: _number(option, one) for name, one in _parts(option, text, "requests=1, calls=1")}


def _parts(option: str, text: str, example: str) -> list[tuple[str, str]]:
    """Return the pairs of a name and a value in `text`. ArgumentError if a name occurs twice."""
    parts = []
    for part in text.split(","):
        name, separator, value = (one.strip() for one in part.partition("="))
        if not (name and separator and value):
            raise ArgumentError(option, text, f"be like {example!r}")
        parts.append((name, value))
    if len(dict(parts)) < len(parts):
        raise ArgumentError(option, text, "name each dimension once")
    return parts


def _price(text: str) -> float | str:
    return float(text) if _is_number(text) else text


def _number(option: str, text: str) -> float:
    if not _is_number(text):
        raise ArgumentError(option, text, "be a number")
    return float(text)


def _is_number(text: str) -> bool:
    """Whether `text` is a number in the digits 0 to 9."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii()
