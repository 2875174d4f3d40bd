"""Changelog fragments: towncrier ignores a file whose type it does not know, so a test finds it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
FOLDER = ROOT / SETTINGS["directory"]
TYPES = [one["directory"] for one in SETTINGS["type"]]
FRAGMENTS = sorted(path for path in FOLDER.iterdir() if path.name != "README.md")


def problem(name: str, text: str) -> str | None:
    """Return what is wrong with a fragment, or None."""
    if not re.fullmatch(rf"(\d+|\+[\w-]+)\.({'|'.join(TYPES)})(\.\d+)?\.md", name):
        return f"{name}: name it NUMBER.TYPE.md or +WORDS.TYPE.md, with a type of {TYPES}"
    if not text.strip():
        return f"{name} is empty"
    if text.startswith(("-", "*", "#")):
        return f"{name}: write sentences; the bullet and the heading are added"
    return None


def test_each_fragment_has_a_known_type_and_a_text() -> None:
    assert [problem(path.name, path.read_text()) for path in FRAGMENTS] == [None] * len(FRAGMENTS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("+words.bug.md", "A text."),
        ("+words.md", "A text."),
        ("words.fixed.md", "A text."),
        ("12.fixed.txt", "A text."),
        ("12.fixed.md", "\n"),
        ("12.fixed.md", "- A text."),
    ],
)
def test_a_fragment_that_would_be_left_out_is_found(name: str, text: str) -> None:
    assert problem(name, text)


@pytest.mark.parametrize("name", ["12.fixed.md", "+some-words.added.md", "12.fixed.1.md"])
def test_a_good_fragment_passes(name: str) -> None:
    assert problem(name, "A text.\n") is None


def test_the_explanation_names_every_type() -> None:
    said = (FOLDER / "README.md").read_text()
    assert [one for one in TYPES if f"`{one}`" not in said] == []


def test_the_changelog_has_the_line_below_which_a_release_is_written() -> None:
    assert (ROOT / SETTINGS["filename"]).read_text().count(SETTINGS["start_string"]) == 1
