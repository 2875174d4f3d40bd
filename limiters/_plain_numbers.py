"""Numbers in messages."""

from __future__ import annotations


def plain(number: float) -> str:
    """`number` with all of its digits but those that are only the error of a float.

    >>> plain(1234567.0), plain(0.1 + 0.2), plain(20_000)
    ('1234567', '0.3', '20000')
    """
    return str(number) if isinstance(number, int) else f"{number:.15g}"
