"""Texts of numbers: for messages, and to be read again without loss."""

from __future__ import annotations


def plain(number: float) -> str:
    """Return `number` with all of its digits except those that are errors of floats.

    >>> plain(1234567.0), plain(0.1 + 0.2), plain(20_000)
    ('1234567', '0.3', '20000')
    """
    return str(number) if isinstance(number, int) else f"{number:.15g}"


def exact(number: float) -> str:
    """Return `number` in the shortest form that is read again as the same number.

    >>> exact(90_000.0), exact(0.1 + 0.2), exact(1e22)
    ('90000', '0.30000000000000004', '1e+22')
    """
    text = repr(number)
    return text.removesuffix(".0")
