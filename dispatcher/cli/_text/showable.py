"""What may be shown of texts that others have written. Pure."""

from __future__ import annotations

import re


def without_passwords(text: str) -> str:
    """The same without what stands between :// and @.

    >>> without_passwords("no such limit: redis://:secret@db:6379/0")
    'no such limit: redis://***@db:6379/0'
    """
    return re.sub(r"://\S*@", "://***@", text)


def printable(text: str) -> str:
    """The same without what would do something to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
