"""What `dispatcher leases` shows of a limit, as a table or as JSON. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

Show = Callable[[InstanceView], bool]
"""Whether an instance has something to say in a column."""

NOBODY = "no instance asks for any of it at present"

OPTIONAL: tuple[tuple[str, Show, Callable[[InstanceView], str]], ...] = (
    (">weight", lambda one: one.weight != 1, lambda one: about(one.weight)),
    (">reserved", lambda one: one.reserved > 0, lambda one: about(one.reserved)),
    (
        ">waits for",
        lambda one: one.waits_for > 0,
        lambda one: (
            f"{about(one.waits_for)}, {duration(one.waits_ms / 1000)}" if one.waits_for else "-"
        ),
    ),
    ("", lambda one: bool(standing(one)), standing),
)
"""Columns that most limits do not need, so that a row of the others fits into 80 letters."""


def page(name: str, view: LimitView) -> TablePage:
    """A row for each instance, and the sums."""
    instances = sorted(view.instances, key=lambda one: (one.label, one.instance))
    letters = shortest([one.instance for one in instances])
    optional = [it for it in OPTIONAL if any(it[1](one) for one in instances)]
    columns = (
        "=instance",
        "=host:process",
        ">held",
        ">limit",
        ">lease",
        ">wants",
        ">spends",
        ">share",
        ">silent",
        *(title for title, _, _ in optional),
    )
    rows = [
        Row(
            (*_cells(view, one, letters), *(cell(one) for _, _, cell in optional)),
            marked=bool(standing(one)),
        )
        for one in instances
    ]
    head = (f"limit {printable(name)}: {capacity(view)}", "", *[NOBODY] * (not instances))
    return TablePage(columns, rows, head, ("", *_summary(view)))


def _cells(view: LimitView, one: InstanceView, letters: int) -> Sequence[str]:
    return (
        printable(one.instance[:letters]),
        printable(one.label),
        in_partitions(view, one.held),
        share_of(one.held),
        duration(one.lease_ms / 1000) if one.held and one.lease_ms > 0 else "-",
        about(one.need),
        about(one.spent),
        in_partitions(view, one.share),
        duration(one.seen_ms / 1000),
    )


def _summary(view: LimitView) -> list[str]:
    demand, spend = _sums(view)
    most, used = view.capacity, 1 - view.free
    lines = [
        f"{of_partitions(view, used)} partitions used ({share_of(used)} of the limit)",
        f"demand {about(demand)} ({percent(demand, most)} of the capacity), "
        f"spend {about(spend)} ({percent(spend, most)})",
        *waiters(view),
    ]
    if view.uncertain_ms or view.unconfirmed_ms:
        lines.append(f"grants {grants(view)}; dispatcher limit show says more")
    return lines + skew(view)


def _sums(view: LimitView) -> tuple[float, float]:
    counting = in_charge(view.instances)
    return sum(one.need for one in counting), sum(one.spent for one in counting)


def as_json(name: str, view: LimitView) -> dict[str, object]:
    """The same for scripts: numbers in their units, durations in seconds."""
    demand, spend = _sums(view)
    return {
        "name": name,
        "capacity_in_force": view.capacity,
        "period": view.terms.period / 1000,
        "partitions": view.partitions,
        "used": _rounded((1 - view.free) * view.partitions),
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
        "partitions": _rounded(one.held * view.partitions),
        "of_the_limit": _rounded(one.held),
        "lease_left": one.lease_ms / 1000,
        "wants": _rounded(one.need),
        "spends": _rounded(one.spent),
        "fair_share": _rounded(one.share * view.partitions),
        "waits_for": _rounded(one.waits_for),
        "waits_since": one.waits_ms / 1000,
        "permit": _rounded(one.permit),
        "weight": one.weight,
        "reserved": one.reserved,
        "silent": one.seen_ms / 1000,
        "evicted": one.evicted,
    }


def _rounded(number: float) -> float:
    """Shares are whole units of a limit, so that 300 may be 300.00000005."""
    return round(number, 6)
