"""What may be shown of texts that others have written: whatever prints or logs for a terminal goes
through here. Pure."""

from __future__ import annotations

from limiters._support.passwords import without_passwords

__all__ = ["printable", "showable", "without_passwords"]


def printable(text: str) -> str:
    """The same without what would do something to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def showable(text: str) -> str:
    r"""Lines without passwords, and without what would do something to a terminal.

    >>> showable("topic \x1b[2J\n redis://:secret@db")
    'topic ?[2J\n redis://***@db'
    """
    return "\n".join(map(printable, without_passwords(text).split("\n")))
