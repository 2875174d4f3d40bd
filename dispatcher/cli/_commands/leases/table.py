"""The instances of a limit, as a table or as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dispatcher.cli._terminal.tables import Row, TablePage
from dispatcher.cli._text.moments import duration
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import (
    about,
    capacity,
    grants,
    in_charge,
    in_partitions,
    of_partitions,
    percent,
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
        lambda view, one: duration(one.lease_ms / 1000) if one.held and one.lease_ms > 0 else "-",
    ),
    Column(">wants", lambda view, one: about(one.need)),
    Column(">spends", lambda view, one: about(one.spent)),
    Column(">share", lambda view, one: in_partitions(view, one.share)),
    Column(">silent", lambda view, one: duration(one.seen_ms / 1000)),
    Column(">weight", lambda view, one: about(one.weight), lambda one: one.weight != 1),
    Column(">reserved", lambda view, one: about(one.reserved), lambda one: one.reserved > 0),
    Column(
        ">waits for",
        lambda view, one: (
            f"{about(one.waits_for)}, {duration(one.waits_ms / 1000)}" if one.waits_for else "-"
        ),
        lambda one: one.waits_for > 0,
    ),
    Column("", lambda view, one: standing(one), lambda one: bool(standing(one))),
)

EXPENDABLE = (">reserved", ">weight", ">silent", ">lease", ">limit")
"""Columns to leave out where the terminal is narrow, in this order."""


def page(name: str, view: LimitView) -> TablePage:
    """Return a row for each instance, and the sums."""
    instances = sorted(view.instances, key=lambda one: (one.label, one.instance))
    letters = shortest([one.instance for one in instances])
    columns = [it for it in COLUMNS if any(map(it.is_needed, instances))]
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
    demand, spend = _sums(view)
    most, held = view.capacity, 1 - view.free
    lines = [
        f"{of_partitions(view, held)} partitions held ({share_of(held)} of the limit)",
        f"demand {about(demand)} ({percent(demand, most)} of the capacity), "
        f"spend {about(spend)} ({percent(spend, most)})",
        *waiters(view),
    ]
    if view.uncertain_ms or view.unconfirmed_ms:
        lines.append(f"grants {grants(view)}; details: dispatcher limit show")
    return lines + skew(view)


def _sums(view: LimitView) -> tuple[float, float]:
    counting = in_charge(view.instances)
    return sum(one.need for one in counting), sum(one.spent for one in counting)


def as_json(name: str, view: LimitView) -> dict[str, object]:
    """Return the data for scripts: numbers in their units, durations in seconds."""
    demand, spend = _sums(view)
    return {
        "name": name,
        "capacity_in_force": view.capacity,
        "period": view.terms.period / 1000,
        "partitions": view.partitions,
        "held": _rounded((1 - view.free) * view.partitions),
        "demand": _rounded(demand),
        "spend": _rounded(spend),
        "uncertain": view.uncertain_ms / 1000,
        "cause": view.cause,
        "clock_skew": view.skew_ms / 1000,
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
    }


def _rounded(number: float) -> float:
    """Round a share: shares are whole units of a limit, so that 300 may be 300.00000005."""
    return round(number, 6)
