"""How the tools end: `kill` and a closed terminal do what Ctrl-C does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

PATIENCE = 60.0  #: Seconds that an interrupted program has to end what it has started.
ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130  #: The exit code of a tool that was interrupted.


def end_as_by_ctrl_c() -> None:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP too, so that a tool removes what it has made.

    On SIGINT as well: a shell lets its jobs in the background ignore that. A SIGHUP that is
    ignored, as `nohup` has it, stays ignored.
    """
    for end in (signal.SIGINT, signal.SIGTERM):
        signal.signal(end, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        terminals = [number for number in (1, 2) if os.isatty(number)]

        def hang_up(number: int, frame: FrameType | None) -> None:
            # Shell and kernel both send it, and a second KeyboardInterrupt would end the clean-up.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            _discard_output([one for one in terminals if not os.isatty(one)])
            raise KeyboardInterrupt

        signal.signal(signal.SIGHUP, hang_up)


def guarded(main: Callable[[], int]) -> int:
    """The exit code of a tool's `main`; if it is interrupted, 130 instead of a traceback."""
    end_as_by_ctrl_c()
    try:
        return main()
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED


def _discard_output(closed: Sequence[int]) -> None:
    """Writing to a terminal that is closed fails, and would end the clean-up."""
    for number in closed:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, number)
        os.close(nowhere)


def end(process: subprocess.Popen[bytes], by: signal.Signals = signal.SIGINT) -> int:
    """Interrupt a program and all of its session; after `PATIENCE`, kill them."""
    try:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, by)
        with suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
    finally:  # even if a second Ctrl-C ends the wait
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


@contextmanager
def _deferred() -> Iterator[None]:
    """An interrupt has to wait for the end of the block."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda which, frame: came.append(which))
        for number in ENDS
        if callable(signal.getsignal(number))
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for which in came[:1]:
            signal.raise_signal(which)


def run(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str] | None = None,
    log: Path | None = None,
    limit: float | None = None,
    by: signal.Signals = signal.SIGINT,
) -> int:
    """The exit code of a program, in a session of its own: it is interrupted by this process alone.

    Whatever interrupts this process ends that one, too, and so does the `limit`, in seconds: then
    it raises subprocess.TimeoutExpired. `by` is the signal. What the program prints goes to `log`.
    """
    process = None
    with ExitStack() as stack:
        streams: dict[str, Any] = {}
        if log is not None:
            output = stack.enter_context(log.open("wb"))
            streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        try:
            with _deferred():  # a process would be left without an owner
                process = subprocess.Popen(
                    command, cwd=cwd, env=env, start_new_session=True, **streams
                )
            return process.wait(limit)
        except BaseException:
            if process is not None:
                end(process, by)
            raise
