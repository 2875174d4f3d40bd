"""The known name that an unknown one was probably meant to be. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(unknown: str, known: Iterable[str]) -> str | None:
    """Return the name that is most like `unknown`, whatever its case; None if none is like it.

    >>> nearest("Tokns", ["tokens", "requests"]), nearest("TOKENS", ["Tokens"]), nearest("x", ["a"])
    ('tokens', 'Tokens', None)
    """
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(unknown.lower(), names, n=1)
    return names[near[0]] if near else None


def did_you_mean(unknown: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the question at the end of an error about an unknown name; `otherwise` if no known
    name is like it.

    >>> did_you_mean("tokns", ["tokens"]), did_you_mean("x", ["tokens"], "there is no x")
    ('did you mean tokens?', 'there is no x')
    """
    near = nearest(unknown, known)
    return otherwise if near is None else f"did you mean {near}?"
