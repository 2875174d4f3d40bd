"""Print tables: by rich on a terminal, in plain columns elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dispatcher.cli._text.showable import printable, showable
from dispatcher.cli._text.wording import not_shown, shortened
from dispatcher.cli._text.wrapping import breakable, wrapped_text

if TYPE_CHECKING:
    from rich.console import RenderableType


MARKS = ">="
"""Marks at the beginning of a column's title, which are not shown."""

LEAST_TEXT = 16
"""Minimum width of a column of texts, which are wrapped."""

LEAST_NAME = 16
"""Minimum number of letters of a shortened name."""


@dataclass(frozen=True, slots=True)
class Row:
    """Cells of a row; an emphasized row stands out where there is colour."""

    cells: Sequence[str]
    marked: bool = False


@dataclass(frozen=True, slots=True)
class TablePage:
    """A table, with lines above and below it."""

    columns: Sequence[str] = ()
    """Titles of the columns. Those that begin with ">" are numbers, and flush right; those that
    begin with "=" are names, the longest of which are shortened to make a table fit."""
    rows: Sequence[Row] = ()
    head: Sequence[str] = ()
    foot: Sequence[str] = ()
    expendable: Sequence[str] = ()
    """Titles of columns that are left out where a terminal is too narrow, in this order."""


Show = Callable[[TablePage], None]


def show(page: TablePage) -> None:
    """Print the page once."""
    if colourful():
        from rich.console import Console

        Console(highlight=False).print(_rich(page, terminal_width()))
    else:
        _print(plain(page))


@contextmanager
def redrawn() -> Iterator[Show]:
    """Show one page after the other: in place on a terminal, below each other elsewhere."""
    if colourful():
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(highlight=False), auto_refresh=False) as live:
            yield lambda page: live.update(_rich(page, terminal_width()), refresh=True)
    elif is_terminal():
        yield lambda page: _print(f"\x1b[H\x1b[2J{plain(page)}")
    else:
        yield lambda page: _print(f"{plain(page)}\n")


def fitted(page: TablePage, width: int) -> TablePage:
    """Return the page with a table that is no wider than `width`, if possible."""
    columns = list(range(len(page.columns)))
    widths = _widths(page)
    names = [at for at in columns if page.columns[at].startswith("=")]
    longest = max(names, key=widths.__getitem__, default=None)

    def excess() -> int:
        return _total(widths, columns) - width

    spare = 0 if longest is None else max(0, widths[longest] - LEAST_NAME)
    left_out = []
    for title in page.expendable:
        if excess() > spare and title in page.columns:
            columns.remove(page.columns.index(title))
            left_out.append(title.lstrip(MARKS))
    if excess() > spare:  # it needs more tables than one, so all of it may be shown
        columns, left_out = list(range(len(page.columns))), []
    if longest is not None:
        widths[longest] -= min(spare, max(0, excess()))

    def cell(text: str, at: int) -> str:
        return shortened(text, widths[at]) if at == longest else text

    rows = [Row([cell(row.cells[at], at) for at in columns], row.marked) for row in page.rows]
    titles = [page.columns[at] for at in columns]
    return replace(page, columns=titles, rows=rows, foot=[*page.foot, *not_shown(left_out)])


def in_blocks(page: TablePage, width: int) -> list[TablePage]:
    """Return tables no wider than `width` that have all columns of the page between them, each with
    the names in front: what is too wide for one line goes on in the next table, and no number is
    cut. Texts are wrapped in their column.

    >>> page = TablePage(("=name", ">one", ">two"), [Row(["a", "1,000", "2,000"])])
    >>> [block.columns for block in in_blocks(page, 12)]
    [['=name', '>one'], ['=name', '>two']]
    """
    widths = _least_widths(page)
    columns = range(len(page.columns))
    names = [at for at in columns if page.columns[at].startswith("=")]
    blocks: list[list[int]] = [names]
    for at in columns:
        if at not in names:
            if len(blocks[-1]) > len(names) and _total(widths, [*blocks[-1], at]) > width:
                blocks.append(names)
            blocks[-1] = [*blocks[-1], at]
    return [_of_columns(page, block) for block in blocks]


def _widths(page: TablePage) -> list[int]:
    return [
        max(len(title.lstrip(MARKS)), *(len(row.cells[at]) for row in page.rows), 0)
        for at, title in enumerate(page.columns)
    ]


def _least_widths(page: TablePage) -> list[int]:
    """Return the widths without a name or a number that is cut: texts may be wrapped."""
    pairs = zip(page.columns, _widths(page), strict=True)
    return [
        width if title.startswith(tuple(MARKS)) else min(width, LEAST_TEXT)
        for title, width in pairs
    ]


def _total(widths: Sequence[int], columns: Sequence[int]) -> int:
    return sum(widths[at] + 2 for at in columns) - 2


def _of_columns(page: TablePage, columns: Sequence[int]) -> TablePage:
    titles = [page.columns[at] for at in columns]
    rows = [Row([row.cells[at] for at in columns], row.marked) for row in page.rows]
    return replace(page, columns=titles, rows=rows)


def plain(page: TablePage) -> str:
    """Return the page as text.

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


def _rich(page: TablePage, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    page = fitted(page, width)
    body: list[RenderableType] = []
    for number, block in enumerate(in_blocks(page, width) if page.rows else ()):
        body += [Text("")] * bool(number) + [_rich_table(block, width)]
    head, foot = (
        [Text(part) for one in lines for part in wrapped_text(showable(one), width)]
        for lines in (page.head, page.foot)
    )
    return Group(*head, *body, *foot)


def _rich_table(page: TablePage, width: int) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    fits = _total(_least_widths(page), range(len(page.columns))) <= width
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
            # Numbers that do not fit at all are wrapped: rich would cut them.
            no_wrap=title.startswith("=") or (fits and right),
        )
    is_whole = _total(_widths(page), range(len(page.columns))) <= width
    for row in page.rows:
        shown = map(printable, row.cells)
        cells = [Text(cell if is_whole else breakable(cell)) for cell in shown]
        table.add_row(*cells, style="red" if row.marked else None)
    return table


def colourful() -> bool:
    """Whether to use colours: there is a terminal, and rich."""
    if not is_terminal():
        return False
    try:
        import rich  # noqa: F401
    except ImportError:
        return False
    return True


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Return the number of letters in a line; 100 where there is no terminal."""
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
