"""The texts that people read in a file of this project: docstrings, comments, messages, names of
tests, pages."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

_CODE = re.compile(r"``[^`]+``|`[^`]+`|\b\w+\.(?:lua|py|md)\b|\b[A-Z][A-Z_]{3,}\b")
"""What is no prose: text in backticks, names of files, constants."""

_DIRECTIVE = re.compile(r"^(noqa|type:|pragma|fmt:|mypy:|!)")
_FEWEST_WORDS = 3
"""A string of fewer words is a key, a name or a part of a format, not a message."""


class Text(NamedTuple):
    """A piece of prose, its white space made single spaces, without what stands in backticks."""

    line: int
    kind: str
    text: str


def texts(path: Path) -> list[Text]:
    """The prose of a file, in order of lines. A file of an unknown kind has none."""
    source = path.read_text("utf-8")
    found: Iterator[tuple[int, str, str]]
    if path.suffix == ".py":
        found = _python(source)
    elif path.suffix == ".md":
        found = _markdown(source)
    elif path.suffix == ".lua":
        found = _commented(source, "--")
    elif path.name == "Makefile" or path.suffix in {".yaml", ".yml", ".toml", ".sh"}:
        found = _commented(source, "#")
    else:
        found = iter(())
    plain = (Text(line, kind, " ".join(_CODE.sub("`", text).split())) for line, kind, text in found)
    return sorted(text for text in plain if text.text)


def _python(source: str) -> Iterator[tuple[int, str, str]]:
    nodes = list(ast.walk(ast.parse(source)))
    seen: set[int] = set()
    for kind, constant, text in chain.from_iterable(map(_docstrings, nodes)):
        seen.add(id(constant))
        yield constant.lineno, kind, text.split(">>>")[0]
    for node in nodes:
        match node:
            case ast.JoinedStr():
                seen |= {id(part) for part in node.values}
                yield from _message(node.lineno, "".join(map(_part, node.values)))
            case ast.Constant(str() as text) if id(node) not in seen:
                yield from _message(node.lineno, text)
            case ast.Constant(bytes() as data) if data.isascii():
                yield from _message(node.lineno, data.decode())
            case ast.FunctionDef() if node.name.startswith("test_"):
                yield node.lineno, "test", node.name.replace("_", " ")
    yield from _python_comments(source)


def _docstrings(node: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    """The docstrings in the body of `node`: its own, and those below its attributes."""
    body = getattr(node, "body", None)
    statements: list[ast.stmt] = body if isinstance(body, list) else []
    for before, statement in zip([None, *statements], statements, strict=False):
        match statement:
            case ast.Expr(ast.Constant(str() as text) as constant):
                attribute = isinstance(before, ast.Assign | ast.AnnAssign)
                yield "attribute" if attribute else "docstring", constant, text


def _message(line: int, text: str) -> Iterator[tuple[int, str, str]]:
    if len(re.findall(r"[^\W\d_]{2,}", text)) >= _FEWEST_WORDS and " " in text.strip():
        yield line, "message", text


def _part(node: ast.expr) -> str:
    """A part of an f-string; an X stands for a value that is filled in."""
    return str(node.value) if isinstance(node, ast.Constant) else "X"


def _python_comments(source: str) -> Iterator[tuple[int, str, str]]:
    rows = [
        (token.start[0], token.line.lstrip().startswith("#"), token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield from _joined([(line, whole, text.lstrip("#").strip()) for line, whole, text in rows])


def _commented(source: str, mark: str) -> Iterator[tuple[int, str, str]]:
    rows = []
    for line, row in enumerate(source.splitlines(), 1):
        before, found, text = row.partition(f"{mark} ")
        if found and not before.count('"') % 2:
            rows.append((line, not before.strip(), text.strip()))
        elif row.strip().startswith("@echo"):
            yield line, "message", row
    yield from _joined(rows)


def _joined(rows: list[tuple[int, bool, str]]) -> Iterator[tuple[int, str, str]]:
    """Comments of consecutive whole lines are one text."""
    first, last, parts = 0, -1, list[str]()
    for line, whole, text in rows:
        if _DIRECTIVE.match(text):
            continue
        if not (whole and parts and line == last + 1):
            if parts:
                yield first, "comment", " ".join(parts)
            first, parts = line, []
        parts.append(text)
        last = line if whole else -1
    if parts:
        yield first, "comment", " ".join(parts)


def _markdown(source: str) -> Iterator[tuple[int, str, str]]:
    """Paragraph by paragraph; of programs only the comments."""
    line, fenced = 0, False
    block: list[str] = []
    for line, row in enumerate([*source.splitlines(), ""], 1):
        fence = row.lstrip().startswith("```")
        if fence or fenced or not row.strip() or row.lstrip().startswith(("|", "- ")):
            yield line - len(block), "page", " ".join(block)
            block = []
        if fence:
            fenced = not fenced
        elif not fenced:
            block.append(row)
        elif "# " in row:
            yield line, "page", row.partition("# ")[2]
