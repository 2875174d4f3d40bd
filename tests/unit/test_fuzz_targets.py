"""Each fuzz target plays what it begins with, and what failed once. `make fuzz` looks for more."""

from __future__ import annotations

import pytest

from tests.fuzz.playing import REGRESSIONS, inputs
from tests.fuzz.targets import NAMES, target


@pytest.mark.parametrize("name", NAMES)
def test_the_regressions_of_a_target_hold(name: str) -> None:
    check, known = target(name).check, inputs(name)
    assert known
    for data in [*known, b""]:
        check(data)


@pytest.mark.parametrize("name", NAMES)
def test_damaged_seeds_hold(name: str) -> None:
    """A few of the inputs that a fuzzer begins with."""
    check = target(name).check
    for data in target(name).seeds():
        for place in range(0, len(data), max(1, len(data) // 3)):
            check(data[:place])
            check(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])


def test_each_file_of_regressions_is_of_a_target() -> None:
    assert {path.stem for path in REGRESSIONS.glob("*.txt")} <= set(NAMES)
