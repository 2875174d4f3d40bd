"""A latch may be set at any moment, by a handler of signals too."""

from __future__ import annotations

import itertools
import sys
import threading
from types import FrameType
from typing import Any

from limiters._support.latch import Latch
from tests.waiting import LONG


class SetAt:
    """Sets a latch before the n-th bytecode of this thread, as a signal handler may."""

    def __init__(self, latch: Latch, number: int) -> None:
        self.latch = latch
        self.left = number

    def __enter__(self) -> SetAt:
        sys.settrace(self.trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            if not self.left:
                self.latch.set()
            self.left -= 1
        return self.trace


def test_it_may_be_set_by_a_handler_wherever_the_thread_that_waits_is() -> None:
    for number in itertools.count():
        latch = Latch()
        with SetAt(latch, number) as setting:
            latch.wait(0)
        if setting.left >= 0:
            assert number > 10
            break
        assert latch.is_set()
        assert latch.wait(LONG)


def test_all_who_wait_go_on() -> None:
    latch = Latch()
    assert not latch.wait(0)
    assert not latch.is_set()
    ended: list[bool] = []
    threads = [
        threading.Thread(target=lambda: ended.append(latch.wait(LONG)), daemon=True)
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    latch.set()
    for thread in threads:
        thread.join(LONG)
    assert ended == [True] * 3
