"""Make texts of others safe to show: all that is printed or logged for a terminal goes through
here. Pure."""

from __future__ import annotations

from limiters._support.passwords import without_passwords

__all__ = ["printable", "showable", "without_passwords"]


def printable(text: str) -> str:
    """Replace control characters that would affect a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def showable(text: str) -> str:
    r"""Remove passwords, and control characters that would affect a terminal.

    >>> showable("topic \x1b[2J\n redis://:secret@db")
    'topic ?[2J\n redis://***@db'
    """
    return "\n".join(map(printable, without_passwords(text).split("\n")))
