"""Show the progress of long work on stderr, if that is a terminal."""

from __future__ import annotations

import os
import sys
import time
from typing import Self

from dispatcher.cli._text.moments import duration
from dispatcher.cli._text.wording import about

PAUSE = 0.1


def progress_line(doing: str, done: int, total: int | None, elapsed: float) -> str:
    """Return the line for a state of progress.

    >>> progress_line("deleting", 1_200, 5_000, 4.0)
    'deleting: 1,200 of 5,000 (24 %), 13 s left'
    >>> progress_line("creating", 1_200, None, 4.0)
    'creating: 1,200, 300 a second'
    """
    if not total:
        rate = f", {about(done / elapsed)} a second" if elapsed > 0 and done else ""
        return f"{doing}: {done:,}{rate}"
    left = ""
    if 0 < done < total:
        left = f", {duration(elapsed * (total - done) / done)} left"
    # The total is not certain: others work on it too.
    return f"{doing}: {done:,} of {max(done, total):,} ({min(100, 100 * done // total)} %){left}"


class Progress:
    """Updates one line, and removes it at the end: on a terminal, and unless the user types there
    meanwhile. A context manager."""

    def __init__(self, doing: str, total: int | None = None, *, typed: bool = False) -> None:
        self._doing = doing
        self._total = total
        self._shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not typed

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self._said = 0.0
        self.tell(0)
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def tell(self, done: int) -> None:
        """Update the line: `done` of the work is done."""
        now = time.monotonic()
        if self._shown and now - self._said >= PAUSE:
            self._said = now
            line = progress_line(self._doing, done, self._total, now - self._began)
            sys.stderr.write(f"\r{_cropped(line)}\x1b[K")
            sys.stderr.flush()


def _cropped(line: str) -> str:
    """Crop the line: a longer one could not be removed."""
    try:
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        columns = 0
    return line[: (columns or 80) - 1]
