"""What may be shown of texts that others have written: whatever prints or logs for a terminal goes
through here. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limiters._support.passwords import without_passwords

if TYPE_CHECKING:
    from logging import LogRecord

__all__ = ["printable", "showable", "showable_log", "without_passwords"]


def printable(text: str) -> str:
    """The same without what would do something to a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def showable(text: str) -> str:
    r"""Lines without passwords, and without what would do something to a terminal.

    >>> showable("topic \x1b[2J\n redis://:secret@db")
    'topic ?[2J\n redis://***@db'
    """
    return "\n".join(map(printable, without_passwords(text).split("\n")))


def showable_log(record: LogRecord) -> bool:
    """A filter for what logs to a terminal."""
    record.msg, record.args = showable(record.getMessage()), ()
    if record.exc_info and not record.exc_text:
        from logging import Formatter

        record.exc_text = showable(Formatter().formatException(record.exc_info))
    return True
