"""The instances of a limit, as a table or as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dispatcher.cli._terminal.tables import Row, TablePage
from dispatcher.cli._text.by_bound import (
    bound_as_json,
    held_of,
    holdings_as_json,
    in_lines,
    uses,
)
from dispatcher.cli._text.moments import duration
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import (
    about,
    asks_for_permit,
    capacity,
    grants,
    in_partitions,
    permit_cost,
    share_of,
    shortest,
    skew,
    standing,
    waiters,
)
from limiters.leases import InstanceView, LimitView

NOBODY = "no instance asks for any of it at present"

Cell = Callable[[LimitView, InstanceView], str]


class Column(NamedTuple):
    """A column of the table."""

    title: str
    cell: Cell
    is_needed: Callable[[InstanceView], bool] = lambda one: True
    """Whether any instance has a value in it; if none has, it is left out."""


COLUMNS = (
    Column(">held", lambda view, one: in_partitions(view, one.held)),
    Column(">limit", lambda view, one: share_of(one.held)),
    Column(
        ">lease",
        lambda view, one: duration(one.lease_ms / 1000) if one.holds and one.lease_ms > 0 else "-",
    ),
    Column(">wants", lambda view, one: about(one.need)),
    Column(">spends", lambda view, one: about(one.spent)),
    Column(">share", lambda view, one: in_partitions(view, one.share)),
    Column(">silent", lambda view, one: duration(one.seen_ms / 1000)),
    Column(">weight", lambda view, one: about(one.weight), lambda one: one.weight != 1),
    Column(">reserved", lambda view, one: about(one.reserved), lambda one: one.reserved > 0),
    Column(">waits for", lambda view, one: _waits(view, one), asks_for_permit),
    Column("", lambda view, one: standing(one), lambda one: bool(standing(one))),
)

EXPENDABLE = (">reserved", ">weight", ">silent", ">lease", ">limit")
"""Columns to leave out where the terminal is narrow, in this order."""


def _waits(view: LimitView, one: InstanceView) -> str:
    if not asks_for_permit(one):
        return "-"
    cost = permit_cost(view, [holding.waits_for for holding in one.bounds])
    return f"{cost}, {duration(one.waits_ms / 1000)}"


def _columns(view: LimitView) -> Sequence[Column]:
    """Return the columns: of several bounds, one for what is held of each."""
    if len(view.bounds) == 1:
        return COLUMNS
    lease, silent, weight, waits, state = (COLUMNS[at] for at in (2, 6, 7, 9, 10))
    held = [Column(f">{one.dimension}", _held_of(at)) for at, one in enumerate(view.bounds)]
    return (*held, lease, silent, weight, waits._replace(title="waits for"), state)


def _held_of(at: int) -> Cell:
    return lambda view, one: held_of(view.bounds[at], one.bounds[at].held)


def page(name: str, view: LimitView) -> TablePage:
    """Return a row for each instance, and the sums."""
    instances = sorted(view.instances, key=lambda one: (one.label, one.instance))
    letters = shortest([one.instance for one in instances])
    columns = [it for it in _columns(view) if any(map(it.is_needed, instances))]
    rows = [
        Row(
            (
                printable(one.instance[:letters]),
                printable(one.label),
                *(it.cell(view, one) for it in columns),
            ),
            marked=bool(standing(one)),
        )
        for one in instances
    ]
    return TablePage(
        ("=instance", "=host:process", *(it.title for it in columns)),
        rows,
        (f"limit {printable(name)}: {capacity(view)}", "", *[NOBODY] * (not instances)),
        ("", *_summary(view)),
        EXPENDABLE,
    )


def _summary(view: LimitView) -> list[str]:
    lines = [*in_lines(view), *waiters(view)]
    if view.uncertain_ms or view.unconfirmed_ms:
        lines.append(f"grants {grants(view)}; details: dispatcher limit show")
    return lines + skew(view)


def as_json(name: str, view: LimitView) -> dict[str, object]:
    """Return the data for scripts: numbers in their units, durations in seconds."""
    first, *_ = found = uses(view)
    return {
        "name": name,
        "capacity_in_force": view.capacity,
        "period": view.terms.period / 1000,
        "partitions": view.partitions,
        "held": _rounded((1 - view.free) * view.partitions),
        "demand": _rounded(first.demand),
        "spend": _rounded(first.spend),
        "uncertain": view.uncertain_ms / 1000,
        "cause": view.cause,
        "clock_skew": view.skew_ms / 1000,
        "bounds": [bound_as_json(one) for one in found],
        "instances": [_instance_as_json(view, one) for one in view.instances],
    }


def _instance_as_json(view: LimitView, one: InstanceView) -> dict[str, object]:
    return {
        "instance": one.instance,
        "label": one.label,
        "held": _rounded(one.held * view.partitions),
        "of_the_limit": _rounded(one.held),
        "lease": one.lease_ms / 1000,
        "wants": _rounded(one.need),
        "spends": _rounded(one.spent),
        "share": _rounded(one.share * view.partitions),
        "waits_for": _rounded(one.waits_for),
        "waited": one.waits_ms / 1000,
        "permit": _rounded(one.permit),
        "weight": one.weight,
        "reserved": one.reserved,
        "silent": one.seen_ms / 1000,
        "evicted": one.evicted,
        "bounds": holdings_as_json(one),
    }


def _rounded(number: float) -> float:
    """Round a share: shares are whole units of a limit, so that 300 may be 300.00000005."""
    return round(number, 6)
