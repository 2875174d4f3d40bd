"""Ask before something that cannot be undone."""

from __future__ import annotations

import sys

from dispatcher.cli._text.showable import showable
from limiters.errors import DispatcherError


def confirm(question: str, done: str) -> None:
    """Return if the user types yes. Otherwise, and without a terminal, raise an error that nothing
    was `done`."""
    if not sys.stdin.isatty():
        raise DispatcherError(
            f"nothing was {done}: there is no terminal to ask on ({question}); use --yes"
        )
    sys.stdout.write(f"{showable(question)} Type yes: ")
    sys.stdout.flush()
    if sys.stdin.readline().strip().lower() != "yes":
        raise DispatcherError(f"nothing was {done}")
