"""What may be shown of texts that others have written. Pure."""

from __future__ import annotations

from limiters._support.passwords import without_passwords

__all__ = ["printable", "without_passwords"]


def printable(text: str) -> str:
    """The same without what would do something to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
