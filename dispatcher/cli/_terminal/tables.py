"""How a command shows what it knows: by rich on a terminal, in plain columns everywhere else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dispatcher.cli._text.showable import printable, showable

if TYPE_CHECKING:
    from rich.console import RenderableType


MARKS = ">="
"""What the title of a column may begin with, and is not shown."""


@dataclass(frozen=True, slots=True)
class Row:
    """Cells; those of a row that is out of the ordinary stand out where there is colour."""

    cells: Sequence[str]
    marked: bool = False


@dataclass(frozen=True, slots=True)
class TablePage:
    """A table, with lines above and below it."""

    columns: Sequence[str] = ()
    """Their titles; those that begin with ">" are numbers, and flush right; those that begin with
    "=" are names, which are not broken to make a table fit."""
    rows: Sequence[Row] = ()
    head: Sequence[str] = ()
    foot: Sequence[str] = ()


Show = Callable[[TablePage], None]


def show(page: TablePage) -> None:
    """Prints it once."""
    if colourful():
        from rich.console import Console

        Console(highlight=False).print(_rich(page))
    else:
        _print(plain(page))


@contextmanager
def redrawn() -> Iterator[Show]:
    """Shows one page after the other: in its place on a terminal, below it elsewhere."""
    if colourful():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(highlight=False), auto_refresh=False) as live:
            yield lambda page: live.update(_rich(page), refresh=True)
    elif is_terminal():
        yield lambda page: _print(f"\x1b[H\x1b[2J{plain(page)}")
    else:
        yield lambda page: _print(f"{plain(page)}\n")


def plain(page: TablePage) -> str:
    """The page as text.

    >>> rows = [Row(["a", "5"]), Row(["bcdef", "1,000"])]
    >>> print(plain(TablePage(("name", ">cost"), rows)), end="")
    name    cost
    a          5
    bcdef  1,000
    """
    titles = [title.lstrip(MARKS) for title in page.columns]
    lines = [list(map(printable, row.cells)) for row in page.rows]
    if lines and any(titles):
        lines.insert(0, titles)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    flush_right = [title.startswith(">") for title in page.columns]
    aligned = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, flush_right, strict=True)
        ).rstrip()
        for line in lines
    ]
    around = [list(map(showable, lines)) for lines in (page.head, page.foot)]
    return "".join(f"{line}\n" for line in [*around[0], *aligned, *around[1]])


def _rich(page: TablePage) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None,
        pad_edge=False,
        show_header=any(title.strip(MARKS) for title in page.columns),
        header_style="bold",
    )
    for title in page.columns:
        right = title.startswith(">")
        table.add_column(
            Text(title.lstrip(MARKS)),
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=title.startswith("="),
        )
    for row in page.rows:
        cells = map(Text, map(printable, row.cells))
        table.add_row(*cells, style="red" if row.marked else None)
    body = [table] if page.rows else []
    head, foot = (map(Text, map(showable, lines)) for lines in (page.head, page.foot))
    return Group(*head, *body, *foot)


def colourful() -> bool:
    """Whether there is somebody to show colours to, and rich to make them."""
    if not is_terminal():
        return False
    try:
        import rich  # noqa: F401
    except ImportError:
        return False
    return True


def is_terminal() -> bool:
    """Whether somebody looks at what is printed."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """How many letters a line has; 100 where there is no terminal."""
    return shutil.get_terminal_size().columns if is_terminal() else 100


def fine_letters() -> bool:
    """Whether more than ASCII can be printed."""
    try:
        "█▏·".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
