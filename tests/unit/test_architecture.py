"""docs/architecture.md is true: every room it names is there, and every room there is, is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "architecture.md").read_text()
SECTIONS = dict(re.findall(r"^## (\S.*?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
CORE = "The core's rooms"
FLOORS = "Floors (imports point down only; `make check` holds them)"


def rooms(title: str) -> set[str]:
    """What the first column of its table names."""
    rows = re.findall(r"^\| (`[^|]*) \|", SECTIONS[title], re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(named) == len(set(named)), "a room is named once"
    return set(named)


def there(folder: Path, *, deep: bool) -> set[str]:
    """The rooms of a package: its modules, those of its folders, or the folders alone."""
    found = set()
    for path in folder.iterdir():
        if path.suffix == ".py" and path.name != "__init__.py":
            found.add(path.name)
        elif path.is_dir() and any(path.glob("*.lua")):
            found.add(f"{path.name}/")
        elif path.is_dir() and deep and path.name != "__pycache__":
            found |= {f"{path.name}/{name}" for name in there(path, deep=True)}
    return found


def whole(named: set[str], folder: Path) -> set[str]:
    """The same, where a folder that is named stands for all that is in it."""
    return {
        room
        for name in named
        for room in (
            {f"{name}{inside}" for inside in there(folder / name, deep=True)}
            if name.endswith("/") and not any((folder / name).glob("*.lua"))
            else {name}
        )
    }


@pytest.mark.parametrize("title", [one for one in SECTIONS if one.endswith("/")])
def test_a_package_has_the_rooms_that_are_named(title: str) -> None:
    folder = ROOT / title
    assert whole(rooms(title), folder) == there(folder, deep=True)


def test_the_core_has_the_rooms_that_are_named() -> None:
    engine = {f"_core/{name}" for name in there(ROOT / "dispatcher" / "_core", deep=True)}
    assert rooms(CORE) == there(ROOT / "dispatcher", deep=False) | engine


def test_every_package_has_its_floor_and_its_rooms() -> None:
    subpackages = {
        f"dispatcher/{path.name}/"
        for path in (ROOT / "dispatcher").iterdir()
        if (path / "__init__.py").exists() and path.name != "_core"
    }
    assert {one for one in SECTIONS if one.endswith("/")} == subpackages | {"limiters/"}
    floors = set(re.findall(r"`((?:dispatcher|limiters)/[^`]*)`", SECTIONS[FLOORS]))
    assert floors == subpackages | {"limiters/", "dispatcher/*.py"}
