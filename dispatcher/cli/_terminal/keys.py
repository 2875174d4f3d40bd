"""Read letters that the user types while something is shown."""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

try:
    import termios
    import tty
except ImportError:  # not on Windows: there Ctrl-C ends it
    termios = None  # type: ignore[assignment]


class TypedKeys:
    """Inside its `with` block the terminal passes each letter as it is typed, and does not show it.

    Without a terminal there are none. Ctrl-C and Ctrl-Z stay signals.
    """

    def __init__(self) -> None:
        self._input: int | None = None

    def __enter__(self) -> Self:
        if termios is not None and sys.stdin.isatty():
            self._input = sys.stdin.fileno()
            self._before = termios.tcgetattr(self._input)
            tty.setcbreak(self._input)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._input is not None:
            with suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(self._input, termios.TCSADRAIN, self._before)

    @property
    def are_read(self) -> bool:
        """Whether there is a terminal to type on."""
        return self._input is not None

    def typed(self, letter: str, patience: float) -> bool:
        """Return whether the user types `letter` within `patience` seconds."""
        end = time.monotonic() + patience
        while (left := end - time.monotonic()) > 0:
            if self._input is None or not select.select([self._input], [], [], left)[0]:
                time.sleep(max(0.0, end - time.monotonic()))
            elif not (found := os.read(self._input, 1)):  # it was closed
                self._input = None
            elif found == letter.encode():
                return True
        return False
