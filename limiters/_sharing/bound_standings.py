"""Holdings, wants and spending of an instance, for each bound of a limit. For metrics. Pure."""

from __future__ import annotations

from dataclasses import replace

from limiters._bound_names import bound_names
from limiters._bound_share import BoundShare
from limiters._budgets.ledger import BoundLedger
from limiters._costs import AnyCost
from limiters._sharing.budget import SharedBudget
from limiters._stats.standing import BoundStanding
from limiters.leases._messages import partitions_of


def bound_standings(budget: SharedBudget, demand: AnyCost, now: float) -> tuple[BoundStanding, ...]:
    """Return one for each bound."""
    limits, share = budget.limits, budget.share
    share.settle(now)
    names = bound_names(
        (bound.dimension, one.terms.period / 1000)
        for bound, one in zip(limits.bounds, share.bounds, strict=True)
    )
    held = now < share.until
    partitions = partitions_of(share.terms.capacity, share.terms.factor)
    each = zip(
        names,
        share.bounds,
        budget.reserved_ledgers,
        share.partitions_of_bounds(),
        limits.by_bound(demand),
        budget.shared_spending(now),
        budget.reserved_spending(now),
        strict=True,
    )
    return tuple(
        replace(
            _standing(name, one, reserved, now),
            demand=waiting,
            spent_shared=shared.estimated,
            spent_reserved=own.estimated,
            refunded_shared=shared.refunded,
            refunded_reserved=own.refunded,
            excess_shared=shared.excess,
            excess_reserved=own.excess,
            partitions_held=one.units / one.terms.units * partitions if held else 0.0,
            partitions_wanted=one.asked_need / partition,
            fair_share=one.reply.share / one.terms.units * partitions,
        )
        for name, one, reserved, partition, waiting, shared, own in each
    )


def _standing(name: str, one: BoundShare, reserved: BoundLedger, now: float) -> BoundStanding:
    there = one.ledger.capacity + reserved.capacity
    busy = one.ledger.spent(now) + reserved.spent(now)
    return BoundStanding(
        dimension=name,
        shared=one.ledger.capacity,
        reserved=reserved.capacity,
        max=one.terms.capacity + reserved.capacity,
        demand=0.0,
        slots_busy=busy if one.terms.slots else None,
        slots_idle=max(0.0, there - busy) if one.terms.slots else None,
    )
