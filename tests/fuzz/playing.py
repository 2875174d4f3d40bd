"""Plays inputs without a fuzzer: seeds, and inputs that failed once, which are kept in files."""

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
"""A file for each target: inputs as Python writes bytes, one a line, below a note of what
failed."""

SECONDS = 60
"""How long one input may take, even on a busy machine: much longer than any should."""

ROOM = 2**30
"""How many bytes of memory a target may use in addition to those of its process at first."""


class HangingError(Exception):
    """An input takes too long."""


def inputs(name: str) -> list[bytes]:
    """Return all stored inputs of a target."""
    return [*target(name).seeds(), *regressions(name)]


def regressions(name: str) -> list[bytes]:
    """Return the inputs that failed once."""
    path = REGRESSIONS / f"{name}.txt"
    lines = path.read_text("ascii").splitlines() if path.exists() else []
    return [ast.literal_eval(line) for line in lines if line.startswith("b")]


@contextmanager
def bounded() -> Iterator[None]:
    """Raise an error if the block uses more time or memory than an input may."""

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
    """Make it a MemoryError to use too much memory from now on. Return the bounds before."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, before[1]))
    return before
