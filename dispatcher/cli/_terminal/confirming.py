"""Asks before something is done that cannot be taken back."""

from __future__ import annotations

import sys

from dispatcher.cli._text.showable import showable
from limiters.errors import DispatcherError


def confirm(question: str, done: str) -> None:
    """Returns if somebody types yes. Otherwise, and where there is nobody to ask, it is an error
    that nothing was `done`."""
    if not sys.stdin.isatty():
        raise DispatcherError(
            f"nothing was {done}: no one to ask ({question}): there is no terminal; say --yes"
        )
    sys.stdout.write(f"{showable(question)} Type yes: ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise DispatcherError(f"nothing was {done}")
