"""`dispatcher limit set`: creates a limit, or changes it for all instances."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dispatcher.cli.options import add_limit, add_option, lease_manager, no_limit, printable
from dispatcher.cli.tables import Page, Row, show
from dispatcher.cli.wording import duration, partitions, terms_of
from limiters._support.plain_numbers import plain
from limiters._support.validation import amount, seconds
from limiters.errors import DispatcherError
from limiters.leases import LimitView
from limiters.leases.messages import Terms, check_partitions, lease_seconds, period_seconds

FACTOR, PERIOD, LEASE_TIME = 1.0, 1.0, 5.0
"""What a new limit has unless it is said, as with SharedResource and RedisLeaseManager."""


def add_command(actions: Any) -> None:
    """Adds `set` to the actions."""
    parser = actions.add_parser(
        "set",
        help="create it, or change its capacity for all instances",
        description="Creates a limit, or changes the one there is. All instances follow within "
        "two sync intervals\n(a second, as a rule), idle ones with their next call. A new limit, "
        "or one with another factor,\ngrants nothing before a lease and a period have passed.",
        epilog="example, twice as much from now on, 1,000 more every minute:\n"
        "  dispatcher limit set orders --shared-capacity 40000 --ramp 1000/60",
    )
    add_limit(parser)
    add_option(
        parser,
        "--shared-capacity",
        float,
        metavar="C",
        required=True,
        text="what all instances may spend together in a period",
    )
    add_option(
        parser,
        "--factor",
        float,
        metavar="F",
        text="what one partition is worth; as it is, or 1. Another one starts the limit over",
    )
    add_option(
        parser, "--period", float, metavar="S", text="only of a new limit: seconds, 1 if not said"
    )
    add_option(
        parser,
        "--lease-time",
        float,
        metavar="S",
        text="only of a new limit: for how many seconds an instance holds what it was granted, "
        "unless it renews; 5 if not said",
    )
    add_option(
        parser,
        "--ramp",
        _ramp,
        metavar="AMOUNT/SECONDS",
        text="raise it by no more than that amount over so many seconds",
    )
    parser.set_defaults(run=_set)


def _ramp(text: str) -> tuple[float, float]:
    amount, slash, over = text.partition("/")
    if not slash:
        raise argparse.ArgumentTypeError("it is AMOUNT/SECONDS, like 1000/60")
    return float(amount), float(over)


def _set(options: argparse.Namespace) -> None:
    shared = amount("shared_capacity", options.shared_capacity)
    ramp = options.ramp
    if ramp is not None:
        ramp = amount("ramp", ramp[0]) / seconds("ramp", ramp[1])
    factor = None if options.factor is None else amount("factor", options.factor)
    period_ms = _milliseconds(period_seconds, options.period)
    lease_ms = _milliseconds(lease_seconds, options.lease_time)
    with lease_manager(options) as manager:
        before = manager.look()
        if before is None:
            new_period_ms = period_ms or round(PERIOD * 1000)
            new_lease_ms = lease_ms or round(LEASE_TIME * 1000)
            terms = Terms(shared, factor or FACTOR, new_period_ms, new_lease_ms)
        else:
            _check_fixed("period", period_ms, before.terms.period_ms)
            _check_fixed("lease_time", lease_ms, before.terms.lease_ms)
            terms = replace(before.terms, capacity=shared, factor=factor or before.terms.factor)
        check_partitions(terms)
        manager.set_capacity(terms, ramp)
        now = manager.look()
        if now is None:  # somebody has deleted it since
            raise no_limit(manager, options)
    _tell(printable(options.name), before, now, ramped=ramp is not None)


def _milliseconds(checked: Callable[[float], float], given: float | None) -> int | None:
    return None if given is None else round(checked(given) * 1000)


def _check_fixed(name: str, wanted_ms: int | None, stored_ms: int) -> None:
    if wanted_ms not in (None, stored_ms):
        raise DispatcherError(
            f"{name} of a limit that exists cannot be changed; it is {plain(stored_ms / 1000)} s. "
            "Stop its instances, delete it (dispatcher limit delete) and set it anew"
        )


def _tell(name: str, before: LimitView | None, now: LimitView, *, ramped: bool) -> None:
    is_now = terms_of(now)
    was = terms_of(before) if before else [("", "-")] * len(is_now)
    rows = [Row((label, old, new)) for (label, new), (_, old) in zip(is_now, was, strict=True)]
    title = f"limit {name} {'is new' if before is None else 'was changed'}"
    show(Page(("", "was", "is"), rows, (title, ""), ("", *_what_follows(before, now, ramped))))


def _what_follows(before: LimitView | None, now: LimitView, ramped: bool) -> list[str]:
    wait = duration(now.quarantine_ms / 1000)
    lines = ["All instances follow within two sync intervals, idle ones with their next call."]
    if before is None:
        lines.append(f"A new limit grants nothing before a lease and a period have passed: {wait}.")
    elif before.terms.factor != now.terms.factor:
        lines.append(
            "Another factor means other partitions, so the limit starts over: nothing is granted "
            f"before a lease and a period have passed: {wait}."
        )
    if partitions(now) == 1:
        lines.append("With one partition, busy instances take turns; a smaller factor makes more.")
    if ramped and not now.rising:
        lines.append("The ramp changes nothing: only what is raised, at the same factor, rises.")
    return lines
