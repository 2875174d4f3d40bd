"""`dispatcher leases`: show the instances of a limit, once or live; evict one."""

from __future__ import annotations

import json
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from dispatcher.cli._commands.connecting import lease_manager
from dispatcher.cli._commands.leases.eviction import evict
from dispatcher.cli._commands.leases.options import LeasesOptions
from dispatcher.cli._commands.leases.table import as_json, page
from dispatcher.cli._commands.missing import no_limit
from dispatcher.cli._options.parser import Invocation
from dispatcher.cli._terminal.tables import Show, redrawn, show
from dispatcher.cli._text.one_bound import alone
from dispatcher.cli._text.showable import printable, showable
from limiters.errors import LeaseManagerError
from limiters.leases import LimitView

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager


def run(options: LeasesOptions, call: Invocation) -> None:
    """Show the instances, or evict one."""
    with lease_manager(options) as manager:
        view = manager.look()
        if view is None:
            raise no_limit(manager.where, options.name, options)
        if options.evict is not None:
            evict(manager, view, options)
        elif options.watch is None:
            _tell(options, show, view)
        else:
            _watch(options, manager, view, options.watch)


def _tell(options: LeasesOptions, shows: Show, view: LimitView) -> None:
    if options.dimension is not None:
        view = _of_dimension(view, options.dimension)
    if options.json:
        sys.stdout.write(json.dumps(as_json(options.name, view)) + "\n")
        sys.stdout.flush()
    else:
        shows(page(options.name, view))


def _of_dimension(view: LimitView, name: str) -> LimitView:
    names = [one.dimension for one in view.bounds]
    if name not in names:
        there = f"it has {', '.join(names)}" if view.terms.layout else "it has one, without a name"
        raise ValueError(f"--dimension: the limit has no {printable(name)!r}; {there}")
    return alone(view, names.index(name))


def _watch(
    options: LeasesOptions, manager: RedisLeaseManager, view: LimitView | None, pause: float
) -> None:
    with nullcontext(show) if options.json else redrawn() as shows:
        while True:
            if view is not None:
                _tell(options, shows, view)
            time.sleep(pause)
            view = _look(options, manager)


def _look(options: LeasesOptions, manager: RedisLeaseManager) -> LimitView | None:
    """Return the view, or an error message to show until Redis answers again."""
    try:
        view = manager.look()
        if view is None:
            raise no_limit(manager.where, options.name, options)
    except LeaseManagerError as error:
        sys.stderr.write(f"dispatcher: {showable(str(error))}\n")
        return None
    return view
