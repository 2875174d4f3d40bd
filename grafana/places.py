"""The place of a panel: its number on its dashboard, and the addresses that lead to it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from grafana.boards import BOARDS
from grafana.questions import Board, Link

BY_UID: Mapping[str, Board] = {board.uid: board for board in BOARDS}


def numbers(board: Board) -> dict[str, int]:
    """Return the number of each panel, by its title.

    >>> numbers(BY_UID["dispatcher-limit"])["Is the limit used?"]
    1
    """
    titles = [question.title for group in board.groups for question in group.questions]
    return {title: number for number, title in enumerate(titles, 1)}


def title(link: Link) -> str:
    """Return the text of a link.

    >>> title(Link("dispatcher-limit")), title(Link("dispatcher-limit", panel="Who waits?"))
    ('Open One datastore', 'Who waits?')
    """
    return link.panel or f"Open {BY_UID[link.board].title.rpartition(' / ')[2]}"


def address(link: Link, value_of: Callable[[str], str], *more: str) -> str:
    """Return the path of a link in Grafana. `value_of` returns the text for the value of a label.

    >>> address(Link("dispatcher-limit", ("limit",), "Is the limit used?"), "<{}>".format)
    '/d/dispatcher-limit?var-cluster=<cluster>&var-limit=<limit>&viewPanel=1'
    """
    choices = [f"var-{label}={value_of(label)}" for label in ("cluster", *link.choices)]
    panel = [f"viewPanel={numbers(BY_UID[link.board])[link.panel]}"] if link.panel else []
    return f"/d/{link.board}?{'&'.join([*more, *choices, *panel])}"
