"""Plays inputs without a fuzzer: seeds, and those that failed once, which files keep."""

from __future__ import annotations

import ast
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.fuzz.targets import target

REGRESSIONS = Path(__file__).with_name("regressions")
"""A file a target: inputs as Python writes bytes, one a line, below what failed."""

SECONDS = 60
"""How long one input may take, on a busy machine too: far longer than any should."""

ROOM = 2**30
"""How many bytes of memory a target may use beyond what its process has at first."""


class HangingError(Exception):
    """An input takes too long."""


def inputs(name: str) -> list[bytes]:
    """All inputs that are known for a target."""
    return [*target(name).seeds(), *regressions(name)]


def regressions(name: str) -> list[bytes]:
    """Those that failed once."""
    path = REGRESSIONS / f"{name}.txt"
    lines = path.read_text("ascii").splitlines() if path.exists() else []
    return [ast.literal_eval(line) for line in lines if line.startswith("b")]


@contextmanager
def bounded() -> Iterator[None]:
    """Until the block ends, more time or memory than an input may take is an error."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise HangingError(f"it takes more than {SECONDS} seconds")

    memory = bound_memory()
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, memory)


def bound_memory() -> tuple[int, int]:
    """From now on, to use too much is a MemoryError; the bounds before."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    return before
