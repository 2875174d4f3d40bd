"""Passwords of URLs, which no message may show, wherever somebody has put the URL."""

from __future__ import annotations

import re


def without_passwords(text: str) -> str:
    """The same without what stands between :// and @.

    >>> without_passwords("no such limit: redis://:secret@db:6379/0")
    'no such limit: redis://***@db:6379/0'
    """
    return re.sub(r"://\S*@", "://***@", text)
