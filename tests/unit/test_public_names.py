"""The public names and their signatures are those of `tests/public_names.txt`."""

from __future__ import annotations

import difflib
from typing import Any

import pytest

from tests import public_names

PACKAGES = [
    pytest.param(name, marks=pytest.mark.spark4) if name == "dispatcher.spark" else name
    for name in sorted(public_names.packages())
]
WHY = """\
The public names of {package} have changed (- noted, + now):

{changes}

If users were meant to see this change: `python -m tests.public_names --write` renews the file, and
a fragment in changelog.d says what they have to do. A name is not removed, nor a parameter, before
a minor version has warned of it: docs/stability.md.
"""


@pytest.fixture(autouse=True)
def _patience() -> None:
    """Defaults stay as they are: the fixture of this name for all tests changes some of them."""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_names_and_signatures_are_those_noted(package: str) -> None:
    noted, now = public_names.noted(package), public_names.lines(package)
    changes = [line for line in difflib.ndiff(noted, now) if line[0] in "+-"]
    assert not changes, WHY.format(package=package, changes="\n".join(changes))


def test_the_file_is_sorted_and_has_each_name_once() -> None:
    noted = public_names.FILE.read_text().splitlines()
    assert noted == sorted(set(noted))


@pytest.mark.parametrize(
    ("thing", "described"),
    [
        (public_names.lines, "a.b(package: str) -> list[str]"),
        ("text", "a.b = 'text'"),
        (frozenset("ba"), "a.b = ['a', 'b']"),
    ],
)
def test_a_name_is_described_by_its_signature(thing: Any, described: str) -> None:
    assert list(public_names._described("a.b", thing)) == [described]
