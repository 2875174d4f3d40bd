"""Where modules lie and what they are called: small folders, private modules marked, names once."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for top in ("dispatcher", "limiters") for path in (ROOT / top).rglob("*.py"))
MOST = 20
"""How many modules a folder may hold."""

PROGRAMS = {"dispatcher/cli/main.py"}
"""They are run, not imported."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_private(path: Path) -> bool:
    return any(part.startswith("_") for part in path.relative_to(ROOT).parts)


def exported() -> set[str]:
    """The modules of which a public package exports something."""
    found = set()
    for path in MODULES:
        if path.name != "__init__.py" or is_private(path.parent):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                found.add(str(node.module))
    return found


def documented() -> set[str]:
    """The modules that the documents and the examples name."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.py")]
    text = "\n".join(page.read_text() for page in pages if page.name != "architecture.md")
    return {name_of(path) for path in MODULES if name_of(path) in text}


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All below `node`; quicker than `ast.walk`, which looks into expressions, too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        if not isinstance(child, ast.expr):
            yield from statements(child)


def test_no_folder_is_crowded() -> None:
    folders = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert {folder: count for folder, count in folders.items() if count > MOST} == {}


def test_no_two_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for path in MODULES
        for node in statements(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_what_users_do_not_import_is_marked() -> None:
    public = {
        name_of(path) for path in MODULES if path.name != "__init__.py" and not is_private(path)
    }
    programs = {name_of(ROOT / path) for path in PROGRAMS}
    assert public - exported() - documented() - programs == set()


def test_every_folder_is_a_package() -> None:
    """Without this file a folder is left out of what is built, or of what is type-checked."""
    assert {path.parent for path in MODULES if not (path.parent / "__init__.py").exists()} == set()


def test_comments_name_files_that_are_there() -> None:
    files = {
        path.name
        for top in ("dispatcher", "limiters", "benchmarks", "docs", "tests")
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".lua", ".md")
    }
    files.add("dispatcher.py")  # a user's, that must not take the place of the package
    scripts = (path for top in ("dispatcher", "limiters") for path in (ROOT / top).rglob("*.lua"))
    gone = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (*MODULES, *scripts)
        for name in re.findall(r"[\w-]+\.(?:py|lua|md)\b", path.read_text("utf-8"))
        if name not in files
    }
    assert gone == set()
