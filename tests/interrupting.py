"""Exceptions at every point of a call, as a signal handler may raise them.

`each_point` makes a call again and again; in the n-th one an exception comes at the n-th point
of this thread's code, until a call gets through without one. Points are either all bytecodes of
`dispatcher` and `limiters`, or only those at which CPython runs signal handlers: on entering a
function, after a call, and at a jump back.
"""

from __future__ import annotations

import dis
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType, ModuleType
from typing import Any

import dispatcher
import limiters

LONG = bool(os.environ.get("LONG"))

OURS = (dispatcher, limiters)


class Alarm(BaseException):
    """An exception that no code expects."""


class SoftLimitError(Exception):
    """The exception that a signal handler for a soft time limit raises."""


ERRORS: tuple[type[BaseException], ...] = (KeyboardInterrupt, Alarm, SoftLimitError)

_points: dict[CodeType, frozenset[int]] = {}


def _delivered_at(code: CodeType) -> frozenset[int]:
    """The offsets before which CPython looks for signals."""
    found = _points.get(code)
    if found is None:
        instructions = list(dis.get_instructions(code))
        after = [
            following.offset
            for one, following in itertools.pairwise(instructions)
            if one.opname in ("RESUME", "CALL", "CALL_FUNCTION_EX")
        ]
        back = [one.offset for one in instructions if one.opname.startswith("JUMP_BACKWARD")]
        found = _points[code] = frozenset(after + back)
    return found


class _Interrupt:
    def __init__(
        self,
        at: int,
        handler: Callable[[], object],
        every_bytecode: bool,
        packages: Sequence[ModuleType] = OURS,
    ) -> None:
        self.left = at
        self.handler = handler
        self.every_bytecode = every_bytecode
        self.folders = tuple(
            os.path.dirname(package.__file__ or "") + os.sep for package in packages
        )
        self.raised = False
        self.where = ""

    def __enter__(self) -> _Interrupt:
        # Python 3.12 reports bytecodes only if a frame has asked for them before settrace.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.folders):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._opcode

    def _opcode(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event != "opcode" or self.raised:
            return self._opcode
        if not self.every_bytecode and frame.f_lasti not in _delivered_at(frame.f_code):
            return self._opcode
        self.left -= 1
        if self.left < 0:
            self.raised = True
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}+{frame.f_lasti}"
            self.handler()
        return self._opcode


def each_call_in(
    prepare: Callable[[], tuple[Callable[[], object], Callable[[], object]]],
) -> Iterator[str]:
    """Where a signal handler was run by a call that goes on after it, at each point of the call.
    `prepare` gives the call and the handler."""
    for at in itertools.count():
        call, handler = prepare()
        interrupt = _Interrupt(at, handler, every_bytecode=False)
        with interrupt:
            call()
        if not interrupt.raised:
            assert at > 0, "the call has no point"
            return
        yield interrupt.where


def each_point(
    prepare: Callable[[], Callable[[], object]],
    *,
    error: type[BaseException] = KeyboardInterrupt,
    every_bytecode: bool = False,
    step: int = 1,
    packages: Sequence[ModuleType] = OURS,
    first: Callable[[], object] = lambda: None,
) -> Iterator[str]:
    """Where each exception came. `prepare` gives the call to be interrupted next, in the code of
    these packages; `first` is done before the exception comes."""

    def handler() -> None:
        first()
        raise error

    at = 0
    while True:
        call = prepare()
        interrupt = _Interrupt(at, handler, every_bytecode, packages)
        try:
            with interrupt:
                call()
        except error:
            pass
        if not interrupt.raised:
            assert at > 0, "the call has no point"
            return
        yield interrupt.where
        at += 1 if LONG else step
