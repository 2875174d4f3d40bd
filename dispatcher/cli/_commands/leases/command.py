"""`dispatcher leases`: who holds how much of a limit, once or live; and evicting one."""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from dispatcher.cli._commands.leases.eviction import evict
from dispatcher.cli._commands.leases.table import as_json, page
from dispatcher.cli._options.options import add_limit, add_option, lease_manager, no_limit
from dispatcher.cli._terminal.tables import Show, redrawn, show
from limiters._support.validation import seconds
from limiters.errors import LeaseManagerError
from limiters.leases import LimitView

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager


def add_command(commands: Any) -> None:
    """Adds `leases` to the commands."""
    parser = commands.add_parser(
        "leases",
        help="who holds how much of a limit, live; evict one",
        description="Shows how many partitions each instance holds and for how long, what it wants "
        "and spends in a\nperiod, its fair share in partitions, and how long ago its last request "
        "came. An instance that has\nnothing to do is forgotten after a lease and a period: "
        "it shows again when it has. One that stopped\nis gone at once.",
        epilog="examples:\n"
        "  dispatcher leases orders --watch 1\n"
        "  dispatcher leases orders --json | jq '.instances[] | select(.spends > 0) | .label'\n"
        "  dispatcher leases orders --evict worker-7:4242",
    )
    add_limit(parser)
    parser.add_argument("--json", action="store_true", help="a line of JSON, for scripts")
    choice = parser.add_mutually_exclusive_group()
    add_option(
        choice,
        "--watch",
        float,
        metavar="SECONDS",
        text="show it again and again, so many seconds apart, until Ctrl-C (exit code 130)",
    )
    choice.add_argument(
        "--evict",
        metavar="INSTANCE",
        help="take everything from one instance and grant it nothing more: the beginning of its "
        "name, or host:process",
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    pause = None if options.watch is None else seconds("watch", options.watch)
    with lease_manager(options) as manager:
        view = manager.look()
        if view is None:
            raise no_limit(manager, options)
        if options.evict is not None:
            evict(manager, view, options.evict, as_json=options.json)
        elif pause is None:
            _tell(options, show, view)
        else:
            _watch(options, manager, view, pause)


def _tell(options: argparse.Namespace, shows: Show, view: LimitView) -> None:
    if options.json:
        sys.stdout.write(json.dumps(as_json(options.name, view)) + "\n")
        sys.stdout.flush()
    else:
        shows(page(options.name, view))


def _watch(
    options: argparse.Namespace, manager: RedisLeaseManager, view: LimitView | None, pause: float
) -> None:
    with nullcontext(show) if options.json else redrawn() as shows:
        while True:
            if view is not None:
                _tell(options, shows, view)
            time.sleep(pause)
            view = _look(options, manager)


def _look(options: argparse.Namespace, manager: RedisLeaseManager) -> LimitView | None:
    """What is known, or a word about why nothing is: who watches sees it come back."""
    try:
        view = manager.look()
        if view is None:
            raise no_limit(manager, options)
    except LeaseManagerError as error:
        sys.stderr.write(f"dispatcher: {error}\n")
        return None
    return view
