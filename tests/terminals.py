"""Run a program on a terminal."""

from __future__ import annotations

import codecs
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from typing import Any

PATIENCE = 60.0

TAKE = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes the terminal one whose Ctrl-C interrupts."""


class Terminal:
    """Runs a command on a terminal of its own. A context manager: it ends with it."""

    def __init__(self, command: Sequence[str], **environment: str) -> None:
        self._command = command
        self._environment = {"TERM": "xterm", "COLUMNS": "140", "LINES": "40", **environment}

    def __enter__(self) -> Terminal:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", TAKE, *self._command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | self._environment,
            start_new_session=True,
        )
        os.close(theirs)
        self._read = ""
        # What is read at a time may end in the middle of a letter.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Close the terminal, as by closing its window."""
        if self._ours >= 0:
            os.close(self._ours)
        self._ours = -1

    def mode(self) -> list[Any]:
        """How it treats what is typed."""
        return termios.tcgetattr(self._ours)

    @property
    def pid(self) -> int:
        """The process on the terminal."""
        return self._process.pid

    def read_until(self, text: str) -> str:
        """Its output since the last call, up to and including `text`."""
        deadline = time.monotonic() + PATIENCE
        while text not in self._read:
            ready, _, _ = select.select([self._ours], [], [], deadline - time.monotonic())
            assert ready, self._read
            self._read += self._decoder.decode(os.read(self._ours, 65_536))
        before, _, self._read = self._read.partition(text)
        return before + text

    def type(self, text: str) -> None:
        """Type text on the terminal."""
        os.write(self._ours, text.encode())

    def end(self) -> int:
        """Wait for its end. Return the exit code."""
        return self._process.wait(PATIENCE)
