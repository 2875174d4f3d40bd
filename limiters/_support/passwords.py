"""Removes the passwords of URLs from texts: no message may show them, wherever the URL stands."""

from __future__ import annotations

import re


def without_passwords(text: str) -> str:
    """Return a text without the secrets of its URLs: what is between :// and @, and all options.

    >>> without_passwords("no such limit: redis://:secret@db:6379/0?ssl_password=secret")
    'no such limit: redis://***@db:6379/0?***'
    """
    is_one = re.match(r"[\w+.-]+://", text) is not None  # a URL may have spaces
    rest = "(?s:.)" if is_one else r"\S"
    hidden = re.sub(f"://{rest}*@", "://***@", text)
    return re.sub(rf"(://[^\s?#]*)[?#]{rest}+", r"\1?***", hidden)
