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
    return (
        {name: _price(one) for name, one in _parts(option, text)} if "=" in text else _price(text)
    )


def amounts_in(option: str, text: str) -> float | dict[str, float]:
    """Return a number, or one for each dimension.

    >>> amounts_in("batchCost", "1"), amounts_in("batchCost", "requests=1, calls=1")
    (1.0, {'requests': 1.0, 'calls': 1.0})
    """
    if "=" not in text:
        return _number(option, text)
    return {name: _number(option, one) for name, one in _parts(option, text)}


def _parts(option: str, text: str) -> list[tuple[str, str]]:
    """Return the pairs of a name and a value in `text`. ArgumentError if a name occurs twice."""
    parts = []
    for part in text.split(","):
        name, separator, value = (one.strip() for one in part.partition("="))
        if not (name and separator and value):
            raise ArgumentError(option, text, "be like 'requests=1, tokens=size/4'")
        parts.append((name, value))
    if len(dict(parts)) < len(parts):
        raise ArgumentError(option, text, "name each dimension once")
    return parts


def _price(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(option, text, "be a number") from None
