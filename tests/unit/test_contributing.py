"""CONTRIBUTING names what is there: folders of tests, packages, make targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
TABLE = PAGE.partition("### Which tests for which change")[2].partition("\n## ")[0]
ROWS = [line.split(" | ") for line in TABLE.splitlines() if line.startswith("| `")]
TARGETS = set(re.findall(r'@echo "make (\w+)', (ROOT / "Makefile").read_text()))


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`(tests/[\w/.]+)`", TABLE))))
def test_the_tests_to_run_are_there(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_package_has_a_row() -> None:
    named = {name for row in ROWS for name in re.findall(r"`([\w/.]+)`", row[0])}
    packages = {
        f"{path.parent.name}/{path.name}"
        for path in (ROOT / "dispatcher").iterdir()
        if (path / "__init__.py").exists()
    }
    assert packages | {"limiters"} <= named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_folder_of_tests_is_in_a_row() -> None:
    folders = {
        str(path.relative_to(ROOT))
        for kind in ("unit", "integration", "acceptance")
        for path in (ROOT / "tests" / kind).iterdir()
        if (path / "__init__.py").exists()
    }
    assert [folder for folder in sorted(folders) if f"`{folder}`" not in TABLE] == []


def test_every_make_target_it_names_is_listed_by_make_help() -> None:
    assert set(re.findall(r"(?:`|\$ )make (\w+)", PAGE)) - {"help"} <= TARGETS
