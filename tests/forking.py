"""Forked children for tests of law B10."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.waiting import until


def exit_code_of(do: Callable[[], bool]) -> int:
    """Return the exit code of a forked child: 0 if `do` returns True there."""
    child = os.fork()
    if not child:
        try:
            os._exit(0 if do() else 1)
        except BaseException:
            os._exit(2)
    ended: list[int] = []

    def has_ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            ended.append(os.waitstatus_to_exitcode(status))
        return bool(pid)

    try:
        until(has_ended)
    finally:
        if not ended:
            os.kill(child, 9)
            os.waitpid(child, 0)
    return ended[0]
