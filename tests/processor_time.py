"""Which tests take most processor time, those of the processes that they start included:
`python -m pytest -p tests.processor_time tests/acceptance`. On Linux, in one process of pytest.

`make test` keeps all cores busy, so that this, and not the time by the clock, says what a test adds
to it. A process that has lost its parent before it ended is not counted.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

SHOWN = 40
TICKS = os.sysconf("SC_CLK_TCK")

_taken: list[tuple[float, str]] = []


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note what the test and its fixtures take."""
    before = _so_far()
    try:
        return (yield)
    finally:
        _taken.append((_so_far() - before, item.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show those that take most."""
    total = sum(seconds for seconds, _ in _taken)
    terminalreporter.section(f"{total:.1f} s of processor time")
    for seconds, place in sorted(_taken, reverse=True)[:SHOWN]:
        terminalreporter.write_line(f"{seconds:8.2f} s {place}")


def _so_far() -> float:
    """Seconds of this process, of those that have ended, and of those that run."""
    own = os.times()
    return sum(own[:4]) + sum(map(_seconds, _descendants(str(os.getpid()))))


def _descendants(pid: str) -> Iterator[str]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = children.read_text().split()
        except OSError:  # it has just ended
            continue
        for child in found:
            yield child
            yield from _descendants(child)


def _seconds(pid: str) -> float:
    try:
        _, _, figures = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except OSError:
        return 0.0
    return sum(map(int, figures.split()[11:15])) / TICKS
