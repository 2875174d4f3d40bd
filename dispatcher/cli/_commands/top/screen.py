"""Show one picture after the other: in place on a terminal, one below the other elsewhere."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

from dispatcher.cli._commands.top.spans import Line, fitted, plain
from dispatcher.cli._terminal.tables import colourful, is_terminal
from dispatcher.cli._text.showable import printable

Draw = Callable[[Sequence[Line]], None]

OTHER_SCREEN, OWN_SCREEN = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


@contextmanager
def screen() -> Iterator[Draw]:
    """Draw on a separate screen, which is removed at the end, however it ends, and while it is
    stopped by Ctrl-Z."""
    if not is_terminal():
        yield lambda lines: _write(f"{plain(lines)}\n")
        return
    suspend = getattr(signal, "SIGTSTP", None)  # not on Windows

    def stop(number: int, frame: FrameType | None) -> None:
        _write(OWN_SCREEN)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # it stops here, until fg
        signal.signal(number, stop)
        _write(OTHER_SCREEN)

    try:
        if suspend is not None:
            signal.signal(suspend, stop)
        _write(OTHER_SCREEN)
        yield _draw
    finally:
        if suspend is not None:
            signal.signal(suspend, signal.SIG_DFL)
        with suppress(OSError):  # the terminal may be gone
            _write(OWN_SCREEN)


def print_once(lines: Sequence[Line]) -> None:
    """Print a picture, and leave it there."""
    _write(_coloured(lines) if is_terminal() else plain(lines))


def _draw(lines: Sequence[Line]) -> None:
    size = shutil.get_terminal_size()
    text = _coloured(fitted(lines, size.columns, size.lines)).removesuffix("\n")
    # Each line clears what was behind it, and the end what was below: nothing flickers.
    _write("\x1b[H" + text.replace("\n", "\x1b[K\n") + "\x1b[K\x1b[J")


def _coloured(lines: Sequence[Line]) -> str:
    if not colourful():
        return plain(lines)
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    with console.capture() as capture:
        for one in lines:
            text = Text(no_wrap=True, end="")
            for span in one:
                text.append(printable(span.text), style=span.style or None)
            console.print(text)
    return capture.get()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
