"""docs/architecture.md and docs/adr are true: no package is left out, and each path exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
DECISIONS = sorted((ROOT / "docs" / "adr").glob("0*.md"))
TEXT = PAGE.read_text("utf-8")
TOPS = ("dispatcher", "limiters", "benchmarks", "tests", "grafana", "examples")
PICTURE = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WIDEST = 80
SHORT = {"T/": "timeline/", "W/": "worker/"}
"""How the picture of a message abbreviates two packages."""


@cache
def paths() -> frozenset[str]:
    """Every file and folder of the project, and what is left of its path without the first folders,
    as pages name modules from a package on."""
    found = set()
    for top in TOPS:
        for path in (ROOT / top, *(ROOT / top).rglob("*")):
            parts = path.relative_to(ROOT).parts
            end = "/" if path.is_dir() else ""
            found |= {"/".join(parts[start:]) + end for start in range(len(parts))}
    return frozenset(found)


def named(text: str) -> set[str]:
    """Texts that look like a module, a script or a folder: in backticks, or in a picture."""
    prose = set(re.findall(r"`([\w./]+(?:\.py|\.lua|/))`", PICTURE.sub("", text)))
    drawn = {
        SHORT.get(path[:2], path[:2]) + path[2:]
        for picture in PICTURE.findall(text)
        for path in re.findall(r"[\w./]+(?:\.py|\.lua)\b", picture)
    }
    return prose | drawn


def test_every_package_has_a_row() -> None:
    rows = re.findall(r"^\|[^|]*\| `((?:dispatcher|limiters)/[^`]*)` \|", TEXT, re.MULTILINE)
    packages = {
        f"dispatcher/{path.name}/"
        for path in (ROOT / "dispatcher").iterdir()
        if (path / "__init__.py").exists()
    }
    assert sorted(rows) == sorted(packages | {"dispatcher/*.py", "limiters/"})


@pytest.mark.parametrize("page", [PAGE, *DECISIONS], ids=lambda page: str(page.name))
def test_what_a_page_names_is_there(page: Path) -> None:
    found = named(page.read_text("utf-8"))
    assert found
    assert found - paths() == set()


def test_what_is_gone_is_found() -> None:
    text = "`_core/gone.py` in `dispatcher/gone/`\n\n```text\nT/gone.py -> lease.lua\n```\n"
    assert named(text) - paths() == {"_core/gone.py", "dispatcher/gone/", "timeline/gone.py"}


def test_pictures_fit_a_terminal() -> None:
    pictures = PICTURE.findall(TEXT)
    assert len(pictures) == 4
    assert [line for line in "".join(pictures).splitlines() if len(line) > WIDEST] == []
