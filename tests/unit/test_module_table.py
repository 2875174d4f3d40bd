"""docs/modules.md has a table for each package, and each module is in one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import module_table
from docs.module_table import table

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "modules.md").read_text("utf-8")
TABLES = re.findall(r"^## (\S+)\n\n```\{modules\} (\S+)\n(:shallow:\n)?```$", PAGE, re.MULTILINE)
"""Title, folder and option of each table."""


def test_every_package_has_a_table() -> None:
    packages = {
        f"dispatcher/{path.name}/"
        for path in (ROOT / "dispatcher").iterdir()
        if (path / "__init__.py").exists()
    }
    assert {title for title, _, _ in TABLES} == packages | {"dispatcher/*.py", "limiters/"}
    assert len(TABLES) == PAGE.count("```{modules}")


def test_every_module_is_in_one_table() -> None:
    rows: list[str] = []
    for _, folder, shallow in TABLES:
        text = table(folder, shallow=bool(shallow))
        rows += [f"{folder}/{name}" for name in re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)]
    assert sorted(rows) == sorted(
        str(path.relative_to(ROOT))
        for top in ("dispatcher", "limiters")
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".lua") and path.name != "__init__.py"
    )


def test_a_row_is_the_first_paragraph_of_a_docstring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner" / "lua").mkdir(parents=True)
    (tmp_path / "one.py").write_text('"""What it\ndoes.\n\nMore."""\n')
    (tmp_path / "inner" / "__init__.py").write_text('"""A part."""\n')
    (tmp_path / "inner" / "lua" / "two.lua").write_text("-- Counts a|b. Then more.\n")
    monkeypatch.setattr(module_table, "ROOT", tmp_path)
    rows = ["| `one.py` | What it does. |"]
    assert table(".", shallow=True).splitlines()[2:] == rows
    rows += ["| **`inner/`** | A part. |", "| `inner/lua/two.lua` | Counts a\\|b. |"]
    assert table(".").splitlines()[2:] == rows


def test_a_module_without_a_docstring_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "silent.py").write_text("x = 1\n")
    monkeypatch.setattr(module_table, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"silent\.py"):
        table(".")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        table("nowhere")
