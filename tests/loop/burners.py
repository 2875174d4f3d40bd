"""Processes that keep every core busy, as long as this process lives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_BURN = "import os\nwhile os.getppid() == {owner}:\n    sum(range(1_000_000))"


@contextmanager
def burning(number: int) -> Iterator[list[int]]:
    """So many, by their process ids; none outlives the block, nor this process, however it ends."""
    code = _BURN.format(owner=os.getpid())
    # A session of their own: Ctrl-C in the terminal is for the loop, which then ends them.
    processes = [
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        for _ in range(number)
    ]
    try:
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
