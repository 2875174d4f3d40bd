"""Sums of each bound of a limit, a window of a rate or a number of calls in flight: how much is
held, wanted and spent. Pure."""

from __future__ import annotations

from typing import NamedTuple

from dispatcher.cli._text.wording import (
    about,
    capacity_of,
    in_charge,
    of_partitions,
    percent,
    share_of,
)
from limiters.leases import InstanceView, LimitView
from limiters.leases.protocol import BoundView


class BoundUse(NamedTuple):
    """The sums of one bound; those of instances whose lease is over are unknown."""

    bound: BoundView
    held: float
    """As a share of it, from 0 to 1."""
    demand: float
    spend: float


def uses(view: LimitView) -> list[BoundUse]:
    """Return the sums of each bound."""
    counting = in_charge(view.instances)
    return [
        BoundUse(
            bound,
            1 - bound.free,
            sum(one.bounds[at].need for one in counting),
            sum(one.bounds[at].spent for one in counting),
        )
        for at, bound in enumerate(view.bounds)
    ]


def scarcest(view: LimitView) -> int:
    """Return the place of the bound of which the least is free."""
    return min(range(len(view.bounds)), key=lambda at: view.bounds[at].free)


def in_lines(view: LimitView) -> list[str]:
    """Return the sums: of several bounds, a line for each."""
    found = uses(view)
    if len(found) == 1:
        return _of_one(view, found[0])
    wide = max(len(one.bound.dimension) for one in found)
    return [
        f"{one.bound.dimension:<{wide}}  {capacity_of(one.bound)}: held {share_of(one.held)}, "
        f"demand {percent(one.demand, one.bound.capacity)}, "
        f"{'in use' if one.bound.terms.slots else 'spend'} "
        f"{percent(one.spend, one.bound.capacity)}"
        for one in found
    ]


def _of_one(view: LimitView, use: BoundUse) -> list[str]:
    most = use.bound.capacity
    return [
        f"{of_partitions(view, use.held)} partitions held ({share_of(use.held)} of the limit)",
        f"demand {about(use.demand)} ({percent(use.demand, most)} of the capacity), "
        f"spend {about(use.spend)} ({percent(use.spend, most)})",
    ]


def held_of(bound: BoundView, share: float) -> str:
    """Return a share of a bound: in per cent; slots as their number."""
    if bound.terms.slots:
        return f"{round(share * bound.terms.units):,}"
    return share_of(share)


def bound_as_json(use: BoundUse) -> dict[str, object]:
    """Return a bound for scripts."""
    terms = use.bound.terms
    return {
        "dimension": use.bound.dimension,
        "kind": "slots" if terms.slots else "rate",
        "shared_capacity": terms.capacity,
        "capacity_in_force": use.bound.capacity,
        "rising_per_second": use.bound.rising,
        "period": terms.period / 1000,
        "max_operation_time": (terms.period if terms.slots else terms.running) / 1000,
        "held": round(use.held, 6),
        "demand": round(use.demand, 6),
        "spend": round(use.spend, 6),
    }


def holdings_as_json(one: InstanceView) -> list[dict[str, object]]:
    """Return what an instance holds of each bound, for scripts."""
    return [
        {
            "dimension": holding.dimension,
            "of_the_limit": round(holding.held, 6),
            "wants": round(holding.need, 6),
            "spends": round(holding.spent, 6),
            "share": round(holding.share, 6),
            "waits_for": round(holding.waits_for, 6),
            "permit": round(holding.permit, 6),
            "reserved": holding.reserved,
        }
        for holding in one.bounds
    ]
