"""How the tools end: `kill` does what Ctrl-C does."""

from __future__ import annotations

import signal


def end_as_by_ctrl_c() -> None:
    """Raise KeyboardInterrupt on SIGTERM too, so that a tool removes what it has made.

    On SIGINT as well: a shell lets its jobs in the background ignore that.
    """
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, signal.default_int_handler)
