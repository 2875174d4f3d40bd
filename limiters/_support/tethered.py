"""A child process that ends with its owner, however the owner ends."""

from __future__ import annotations

import os
import subprocess
import weakref
from collections.abc import Sequence
from pathlib import Path

from limiters._support.forking import begin_in_child

# The shell starts a watchdog and becomes the command. So the command has the process id that the
# owner has stored, which is `$$` in the watchdog. The watchdog reads a pipe whose other end only
# the owner holds. If it reads a line, it lets the command be; the end of the pipe means that the
# owner is gone. This needs no handler in the owner, which SIGKILL would not run. Unlike Linux's
# PR_SET_PDEATHSIG it does not take the end of the thread that started the child for the end of the
# owner. It works wherever there is a shell.
SHELL = Path("/bin/sh")
_SCRIPT = """
exec 3<&0 </dev/null
(read -r released <&3 && exit; kill -9 $$; rm -rf -- "$1") >/dev/null 2>&1 &
shift
exec "$@" 3<&-
"""

_all: weakref.WeakSet[Tethered] = weakref.WeakSet()


class Tethered:
    """Runs `command` in `directory` until `end()`, or until this process is gone.

    If this process is gone first, killed or not, the command gets SIGKILL immediately and
    `directory` is removed. The command has a session of its own: a Ctrl-C in the terminal
    reaches the owner only. A forked child of the owner does not keep the command alive.
    The output of the command goes to the file `log`.
    """

    def __init__(self, command: Sequence[str], directory: Path, log: Path) -> None:
        reader, writer = os.pipe()
        self._tether = os.fdopen(writer, "wb", buffering=0)
        try:
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [str(SHELL), "-c", _SCRIPT, "tether", str(directory), *command],
                    stdin=reader,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=directory,
                    start_new_session=True,
                )
        except BaseException:
            self._tether.close()
            raise
        finally:
            os.close(reader)
        _all.add(self)

    @property
    def pid(self) -> int:
        """The command's process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the command has not ended, by itself or by `end()`."""
        if self._process.poll() is None:
            return True
        self._release()  # another process may soon have its process id
        return False

    def signal(self, number: int) -> None:
        """Send the signal. Does nothing if the command has ended."""
        if self.running:
            self._process.send_signal(number)

    def end(self) -> None:
        """Kill the command (SIGKILL) and return when it is gone. Idempotent."""
        if self.running:
            self._process.kill()
            self._release()  # before its process id is given up
            self._process.wait()

    def _release(self) -> None:
        if not self._tether.closed:
            try:
                self._tether.write(b"released\n")
            except BrokenPipeError:  # the watchdog was killed
                pass
            finally:
                self._tether.close()

    @staticmethod
    def _let_go() -> None:
        for one in list(_all):
            one._tether.close()


begin_in_child(Tethered._let_go)
