"""Count and name messages in log lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence

MOST_NAMED = 5
"""Number of ids in a line."""


def counted(messages: int) -> str:
    """Return a number of messages in words.

    >>> counted(1), counted(10)
    ('1 message', '10 messages')
    """
    return f"{messages} message{'s' * (messages != 1)}"


def some_of(ids: Sequence[str]) -> str:
    """Return the first ids, without characters that would break a line.

    >>> print(some_of(["a", "b"]), some_of(list("abcdefg")), sep="; ")
    'a', 'b'; 'a', 'b', 'c', 'd', 'e' and 2 more
    """
    more = len(ids) - MOST_NAMED
    return ", ".join(map(repr, ids[:MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
