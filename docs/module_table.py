"""Tables of modules, generated from the first paragraph of each module's docstring.

The directive `modules` (see `directives`) puts them into the pages; the command line prints
them:

    python -m docs.module_table dispatcher/_core
    python -m docs.module_table --shallow dispatcher

A Lua script has a row as well: its text is the first sentence of the comment at its top.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SENTENCE = re.compile(r"\.(?:\s|$)")


def table(folder: str, *, shallow: bool = False) -> str:
    """The modules of `folder`, a path from the root of the project, as a table in Markdown.

    With `shallow`, those of its subfolders are left out. A folder that does not exist is a
    FileNotFoundError, a module without a docstring a ValueError that names it.
    """
    if not (ROOT / folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder} in {ROOT}")
    rows = [f"| {name} | {text} |" for name, text in _rows(ROOT / folder, "", shallow)]
    return "\n".join(["| module | responsibility |", "| --- | --- |", *rows])


def first_paragraph(path: Path) -> str:
    """The first paragraph of a module's docstring, or the first sentence of a script, in one
    line."""
    source = path.read_text("utf-8")
    if path.suffix == ".lua":
        text = _first_comment(source)
    else:
        text = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")[0]
    if not text:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring, or no comment at its top")
    return " ".join(text.split())


def _first_comment(source: str) -> str:
    """The first sentence of a comment that opens a Lua script.

    >>> _first_comment("-- Counts messages by time,\\n-- in steps. It changes nothing.\\n")
    'Counts messages by time,\\nin steps.'
    """
    lines: list[str] = []
    for line in source.splitlines():
        if not line.startswith("-- "):
            break
        lines.append(line.removeprefix("-- "))
    text = "\n".join(lines)
    end = _SENTENCE.search(text)
    return text if end is None else text[: end.start() + 1]


def _rows(folder: Path, prefix: str, shallow: bool) -> Iterator[tuple[str, str]]:
    """The modules of a folder by name, then each of its folders."""
    inside = sorted(folder.iterdir())
    for path in inside:
        if path.suffix in (".py", ".lua") and path.name != "__init__.py":
            yield f"`{prefix}{path.name}`", _cell(first_paragraph(path))
    for path in () if shallow else inside:
        package = (path / "__init__.py").exists()
        if not package and not any(path.glob("*.lua")):
            continue
        if package:
            yield f"**`{prefix}{path.name}/`**", _cell(first_paragraph(path / "__init__.py"))
        yield from _rows(path, f"{prefix}{path.name}/", shallow)


def _cell(text: str) -> str:
    """Text that is safe in a cell of a table.

    >>> print(_cell("`completion bash|zsh`"))
    `completion bash\\|zsh`
    """
    return text.replace("|", "\\|")


def main() -> None:
    """Prints the tables of the folders that are named."""
    parser = argparse.ArgumentParser(prog="python -m docs.module_table", description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--shallow", action="store_true", help="leave out subfolders")
    given = parser.parse_args()
    for folder in given.folders:
        sys.stdout.write(table(folder, shallow=given.shallow) + "\n")


if __name__ == "__main__":
    main()
