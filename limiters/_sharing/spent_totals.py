"""Spending of an instance, as counters for all who look at the limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from limiters._budgets.spending import Spending
from limiters.leases._totals import name_in
from limiters.limits import Limits


def spent_totals(
    limits: Limits, shared: Sequence[Spending], reserved: Sequence[Spending]
) -> dict[str, float]:
    """Return the counters by name. Of several windows of a dimension, the first one counts: what
    is spent counts in all of them.

    >>> from limiters import Rate
    >>> of_bound = [Spending(30, refunded=20)]
    >>> totals = spent_totals(Limits(tokens=Rate(90)), of_bound, [Spending()])
    >>> {name: cost for name, cost in totals.items() if cost}
    {'spent_shared': 30, 'refunded_shared': 20}
    """
    totals: dict[str, float] = {}
    for kind, by_bound in (("shared", shared), ("reserved", reserved)):
        for bound, one in zip(limits.bounds, by_bound, strict=True):
            for counter, cost in (
                ("spent", one.estimated),
                ("refunded", one.refunded),
                ("excess", one.excess),
            ):
                name = name_in(f"{counter}_{kind}", bound.dimension, limits.dimensions)
                totals.setdefault(name, cost)
    return totals
