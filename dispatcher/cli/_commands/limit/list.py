"""`dispatcher limit list`: lists all limits under a prefix."""

from __future__ import annotations

import json
import sys

from dispatcher.cli._commands.limit.command import as_json
from dispatcher.cli._commands.limit.options import LimitListOptions
from dispatcher.cli._commands.looking import look_once
from dispatcher.cli._commands.missing import none_at_all
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.by_bound import scarcest
from dispatcher.cli._text.showable import printable, showable
from dispatcher.cli._text.wording import capacity, of_partitions, share_of, uncertainty
from limiters.errors import DispatcherError
from limiters.leases import LimitView

COLUMNS = ("=limit", "capacity", "held", ">instances", "")


def run(options: LimitListOptions, call: Invocation) -> None:
    """List all limits under the prefix."""
    limits = look_once(options, limits=True).limits
    seen = {name: view for name, view in limits.items() if view is not None}  # not deleted just now
    if options.json:
        sys.stdout.write(json.dumps([_as_json(*one) for one in seen.items()]) + "\n")
    elif seen:
        show(TablePage(COLUMNS, [_row(*one) for one in seen.items()]))
    else:
        sys.stdout.write(none_at_all("limit", options))


def _row(name: str, view: LimitView | DispatcherError) -> Row:
    if isinstance(view, DispatcherError):
        return Row((printable(name), "-", "-", "-", "unreadable: limit show says why"), marked=True)
    note = "grants nothing new: limit show says why" if uncertainty(view) else ""
    return Row((printable(name), capacity(view), _held(view), f"{len(view.instances):,}", note))


def _held(view: LimitView) -> str:
    """Return which part of a limit is held: of several bounds, the bound of which least is free."""
    if len(view.bounds) == 1:
        return of_partitions(view, 1 - view.free)
    bound = view.bounds[scarcest(view)]
    return f"{share_of(1 - bound.free)} of {bound.dimension}"


def _as_json(name: str, view: LimitView | DispatcherError) -> dict[str, object]:
    if isinstance(view, DispatcherError):
        return {"name": name, "error": showable(str(view))}
    return as_json(name, view)
