"""A waking of a thread may be used at any moment, by a handler of signals too."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from limiters._sharing.asking import Asking
from limiters._support.latch import Latch
from tests.waiting import LONG


class At:
    """Does something before the n-th bytecode of this thread, as a signal handler may."""

    def __init__(self, number: int, do: Callable[[], object]) -> None:
        self.left = number
        self.do = do

    def __enter__(self) -> At:
        # Python 3.12 reports bytecodes only if a frame has asked for them before settrace.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self.trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            if not self.left:
                self.do()
            self.left -= 1
        return self.trace


def test_it_may_be_set_by_a_handler_wherever_the_thread_that_waits_is() -> None:
    for number in itertools.count():
        latch = Latch()
        with At(number, latch.set) as setting:
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


def test_a_handler_may_wake_who_asks_for_capacity_while_its_own_thread_does_so() -> None:
    for number in itertools.count():
        over = threading.Event()
        asking = Asking(
            lambda: (None, LONG),
            lambda request: True,
            over.is_set,
            lambda: (None, None),
            lambda error: None,
        )
        with At(number, asking.wake) as waking:
            asking.wake()
        asking.start()
        over.set()
        assert asking.end(LONG)
        if waking.left >= 0:
            assert number > 10
            break
