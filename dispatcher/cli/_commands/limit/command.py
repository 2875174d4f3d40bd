"""`dispatcher limit show|set|delete`: the terms of a limit that many instances share."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from dispatcher.cli._commands.limit import set as limit_set
from dispatcher.cli._options.options import add_limit, lease_manager, no_limit, printable
from dispatcher.cli._terminal.confirming import confirm
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.wording import (
    grants,
    of_partitions,
    share_of,
    skew,
    standing,
    terms_of,
    uncertainty,
    waiters,
)
from limiters.errors import DamagedLimitError, LeaseManagerError
from limiters.leases import LimitView

if TYPE_CHECKING:
    from limiters.leases.redis import RedisLeaseManager


def add_commands(commands: Any) -> None:
    """Adds `limit` to the commands."""
    limit = commands.add_parser(
        "limit",
        help="show, set or delete a limit that many instances share",
        description="The limit that all instances with the same name share, kept in Redis.",
        epilog="example:\n  dispatcher limit show orders --redis redis://db:6379/0",
    )
    actions = limit.add_subparsers(title="actions", metavar="ACTION")
    _add_show(actions)
    limit_set.add_command(actions)
    _add_delete(actions)


def _add_show(actions: Any) -> None:
    parser = actions.add_parser(
        "show",
        help="its terms, and whether it grants anything",
        description="Shows the terms of a limit, how many partitions are free, and whether "
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
        "again, with the terms\nit knows: stop them first.",
        epilog="examples:\n  dispatcher limit delete orders --yes\n  "
        "dispatcher limit delete orders --old-format",
    )
    add_limit(parser)
    parser.add_argument(
        "--old-format",
        action="store_true",
        help="delete what an older version of this library has stored of it, and nothing else: "
        "nothing is granted while that is there",
    )
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
    show(TablePage(("", ""), [Row(row) for row in rows], foot=uncertainty(view)))


def _state(view: LimitView) -> list[tuple[str, str]]:
    odd = sorted(state for one in view.instances if (state := standing(one)))
    instances = f"{len(view.instances):,}" + "".join(
        f", {odd.count(state)} {state}" for state in dict.fromkeys(odd)
    )
    return [
        ("free", f"{of_partitions(view, view.free)} ({share_of(view.free)})"),
        ("instances", instances),
        ("grants", grants(view)),
        *(("permits", said) for said in waiters(view)),
        *(("clock", said) for said in skew(view)),
    ]


def _as_json(name: str, view: LimitView) -> dict[str, object]:
    return {
        "name": name,
        "shared_capacity": view.terms.capacity,
        "capacity_in_force": view.capacity,
        "rising_per_second": view.rising,
        "factor": view.terms.factor,
        "partitions": view.partitions,
        "period": view.terms.period / 1000,
        "lease_time": view.terms.lease / 1000,
        "version": view.terms.version,
        "free": round(view.free * view.partitions, 6),
        "instances": len(view.instances),
        "uncertain": view.uncertain_ms / 1000,
        "cause": view.cause,
        "clock_skew": view.skew_ms / 1000,
    }


def _delete(options: argparse.Namespace) -> None:
    if options.old_format:
        _delete_old_format(options)
        return
    name = printable(options.name)
    with lease_manager(options) as manager:
        known = _known_of(manager, options)
        if not options.yes:
            confirm(f"Delete limit {name} in {manager.where}? {known}", "deleted")
        if not manager.delete():
            raise no_limit(manager, options)
    sys.stdout.write(
        f"limit {name} is deleted. An instance that still runs makes it again, with the terms it "
        "knows, and then\nnothing new is granted for a lease and a period.\n"
    )


def _known_of(manager: RedisLeaseManager, options: argparse.Namespace) -> str:
    """What is known of a limit that is to be deleted."""
    try:
        view = manager.look()
    except DamagedLimitError:
        return "It is damaged, so nobody knows how many instances took part lately."
    if view is None:
        raise no_limit(manager, options)
    count = len(view.instances)
    return f"{count} instance{'s' * (count != 1)} took part lately."


def _delete_old_format(options: argparse.Namespace) -> None:
    name = printable(options.name)
    with lease_manager(options) as manager:
        if not options.yes:
            confirm(
                f"Delete what an older version of this library has stored of limit {name} in "
                f"{manager.where}? Stop the instances of that version first: they would spend "
                "on top of the limit.",
                "deleted",
            )
        if not manager.delete_old_format():
            raise LeaseManagerError(
                f"nothing of an older format is stored of limit {name!r} in {manager.where}"
            )
    sys.stdout.write(f"what an older version has stored of limit {name} is deleted.\n")
