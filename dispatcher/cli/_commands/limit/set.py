"""`dispatcher limit set`: creates a limit, or changes it for all instances."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dispatcher.cli._options.options import (
    add_limit,
    add_option,
    lease_manager,
    no_limit,
    printable,
)
from dispatcher.cli._terminal.tables import Row, TablePage, show
from dispatcher.cli._text.wording import duration, grants, terms_of
from limiters._support.validation import amount
from limiters.errors import DamagedLimitError, LeaseManagerError
from limiters.leases import LimitView
from limiters.leases._messages import (
    lease_seconds,
    period_seconds,
    ramp_of,
    shared_amount,
)

FACTOR, PERIOD, LEASE_TIME = 1.0, 1.0, 5.0
"""What a new limit has unless it is said, as with SharedResource and RedisLeaseManager."""

CHANGES = ("shared_capacity", "factor", "period", "lease_time")


def add_command(actions: Any) -> None:
    """Adds `set` to the actions."""
    parser = actions.add_parser(
        "set",
        help="create it, or change its terms for all instances",
        description="Creates a limit, or changes what is said of the one there is. All instances "
        "follow within two\nsync intervals (a second, as a rule), idle ones with their next call. "
        "Another capacity or factor\nneeds no wait. Another period or lease time waits until the "
        "leases that are out have ended:\nmeanwhile instances keep what they hold, and nothing "
        "new is granted.",
        epilog="examples, twice as much from now on, 1,000 more every minute; other leases:\n"
        "  dispatcher limit set orders --shared-capacity 40000 --ramp 1000/60\n"
        "  dispatcher limit set orders --lease-time 10 --period 60",
    )
    add_limit(parser)
    add_option(
        parser,
        "--shared-capacity",
        float,
        metavar="C",
        text="what all instances may spend together in a period; a new limit needs it",
    )
    add_option(parser, "--factor", float, metavar="F", text="what one partition is worth; 1 if new")
    add_option(parser, "--period", float, metavar="S", text="seconds; 1 if new")
    add_option(
        parser,
        "--lease-time",
        float,
        metavar="S",
        text="for how many seconds an instance holds what it was granted, unless it renews; 5 if "
        "new",
    )
    add_option(
        parser,
        "--ramp",
        _ramp,
        metavar="AMOUNT/SECONDS",
        text="raise the capacity by no more than that amount over so many seconds",
    )
    parser.set_defaults(run=_set)


def _ramp(text: str) -> tuple[float, float]:
    amount, slash, over = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError("it is AMOUNT/SECONDS, like 1000/60")
    return float(amount), float(over)


def _set(options: argparse.Namespace) -> None:
    if all(getattr(options, name) is None for name in CHANGES):
        raise ValueError(
            "say what to change: --shared-capacity, --factor, --period or --lease-time"
        )
    shared, factor = options.shared_capacity, options.factor
    shared = None if shared is None else shared_amount("shared_capacity", shared)
    factor = None if factor is None else amount("factor", factor)
    period = None if options.period is None else period_seconds(options.period)
    lease = None if options.lease_time is None else lease_seconds(options.lease_time)
    ramp = ramp_of(options.ramp)
    with lease_manager(options) as manager:
        damaged = None
        try:
            before = manager.look()
        except DamagedLimitError as error:
            before, damaged = None, error
        if before is None:
            if shared is None:
                raise damaged or no_limit(manager, options)
            factor, period, lease = factor or FACTOR, period or PERIOD, lease or LEASE_TIME
        if not manager.set_terms(
            capacity=shared, factor=factor, period=period, lease_time=lease, ramp=ramp
        ):
            raise _gone(options)
        now = manager.look()
        if now is None:
            raise _gone(options)
    if damaged is not None:
        sys.stdout.write(
            "What was stored of it could not be read: it starts over, and what was not said now is "
            "as for a new limit.\n\n"
        )
    _tell(printable(options.name), before, now, ramped=ramp is not None)


def _gone(options: argparse.Namespace) -> LeaseManagerError:
    return LeaseManagerError(
        f"limit {printable(options.name)!r} was deleted at the same moment; set it again"
    )


def _tell(name: str, before: LimitView | None, now: LimitView, *, ramped: bool) -> None:
    is_now = terms_of(now)
    was = terms_of(before) if before else [("", "-")] * len(is_now)
    rows = [Row((label, old, new)) for (label, new), (_, old) in zip(is_now, was, strict=True)]
    title = f"limit {name} {'is new' if before is None else 'was changed'}"
    show(TablePage(("", "was", "is"), rows, (title, ""), ("", *_what_follows(before, now, ramped))))


def _what_follows(before: LimitView | None, now: LimitView, ramped: bool) -> list[str]:
    lines = ["All instances follow within two sync intervals, idle ones with their next call."]
    wait = duration(now.uncertain_ms / 1000)
    if before is not None and not before.terms.agrees(now.terms):
        lines += [
            "Another period or lease time waits until the leases that are out have ended:",
            f"nothing new is granted for {wait}. Instances keep what they hold.",
        ]
    elif now.uncertain_ms or now.unconfirmed_ms:
        lines.append(f"It grants {grants(now)}.")
    elif before is None:
        lines.append("It grants at once: no instance can hold anything of it.")
    if ramped and not now.rising:
        lines.append("The ramp changes nothing: only a raised capacity rises.")
    return lines
