"""`dispatcher limit show|set|delete`: the terms of a limit that many instances share."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from dispatcher.cli import limit_set
from dispatcher.cli.confirming import confirm
from dispatcher.cli.options import add_limit, lease_manager, no_limit, printable
from dispatcher.cli.tables import Page, Row, show
from dispatcher.cli.wording import (
    QUARANTINE,
    counted,
    free,
    partitions,
    quarantine,
    standing,
    terms_of,
)
from limiters.leases import LimitView, ranges


def add_commands(commands: Any) -> None:
    """Adds `limit` to the commands."""
    limit = commands.add_parser(
        "limit",
        help="show, set or delete a limit that many instances share",
        description="The limit that all instances with the same name share, kept in Redis.",
        epilog="example:\n  dispatcher limit show orders --redis redis://db:6379/0",
    )
    actions = limit.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_show(actions)
    limit_set.add_command(actions)
    _add_delete(actions)


def _add_show(actions: Any) -> None:
    parser = actions.add_parser(
        "show",
        help="its terms, and whether it grants anything",
        description="Shows the terms of a limit, the partitions that are free, and whether "
        "anything new is granted.",
        epilog="example:\n  dispatcher limit show orders --redis redis://db:6379/0\n  "
        "dispatcher limit show orders --json | jq .capacity",
    )
    add_limit(parser)
    parser.add_argument("--json", action="store_true", help="one line of JSON, for scripts")
    parser.set_defaults(run=_show)


def _add_delete(actions: Any) -> None:
    parser = actions.add_parser(
        "delete",
        help="forget it",
        description="Forgets a limit and who holds what. An instance that still runs makes it "
        "anew, with the terms\nit knows: stop them first.",
        epilog="example:\n  dispatcher limit delete orders --yes",
    )
    add_limit(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.set_defaults(run=_delete)


def _show(options: argparse.Namespace) -> None:
    with lease_manager(options) as manager:
        view = manager.look()
        if view is None:
            raise no_limit(manager, options)
    if options.json:
        sys.stdout.write(json.dumps(_as_json(options.name, view)) + "\n")
        return
    rows = [("limit", printable(options.name)), *terms_of(view), *_state(view)]
    foot = QUARANTINE if view.quarantine_ms else ()
    show(Page(("", ""), [Row(row) for row in rows], foot=foot))


def _state(view: LimitView) -> list[tuple[str, str]]:
    odd = sorted(state for member in view.members if (state := standing(member)))
    members = f"{len(view.members):,}" + "".join(
        f", {odd.count(state)} {state}" for state in dict.fromkeys(odd)
    )
    return [("free", counted(free(view))), ("members", members), ("grants", quarantine(view))]


def _as_json(name: str, view: LimitView) -> dict[str, object]:
    return {
        "name": name,
        "shared_capacity": view.terms.capacity,
        "capacity_in_force": view.capacity,
        "rising_per_second": view.rising,
        "factor": view.terms.factor,
        "partitions": partitions(view),
        "period": view.terms.period_ms / 1000,
        "lease_time": view.terms.lease_ms / 1000,
        "version": view.terms.version,
        "free": ranges.text(free(view)),
        "members": len(view.members),
        "quarantine": view.quarantine_ms / 1000,
    }


def _delete(options: argparse.Namespace) -> None:
    name = printable(options.name)
    with lease_manager(options) as manager:
        view = manager.look()
        if view is None:
            raise no_limit(manager, options)
        if not options.yes:
            known = len(view.members)
            confirm(
                f"Delete limit {name} in {manager.where}? {known} instance{'s' * (known != 1)} "
                "took part lately.",
                "deleted",
            )
        if not manager.delete():
            raise no_limit(manager, options)
    sys.stdout.write(
        f"limit {name} is deleted. An instance that still runs makes it anew, with the terms it "
        "knows, and then\nnothing new is granted for a lease and a period.\n"
    )
