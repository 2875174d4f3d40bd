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


OPTIONS = PAGE.partition("The dataclasses are:")[2].partition("\n- ")[0]


def test_every_family_of_options_is_in_the_table() -> None:
    named = set(re.findall(r"`(\w+/[\w/]+\.py)`", OPTIONS))
    assert [path for path in named if not (ROOT / path).exists()] == []
    declares = re.compile(r"^class \w+\((?:\w+, )*(?:Checked|Converted)Options\)", re.MULTILINE)
    commands, base = "dispatcher/cli/_commands/", "limiters/_support/options.py"
    declared = {
        str(path.relative_to(ROOT))
        for top in ("dispatcher", "limiters")
        for path in (ROOT / top).rglob("*.py")
        if declares.search(path.read_text())
    }
    missing = {path for path in declared - named - {base} if not path.startswith(commands)}
    assert missing == set()


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
