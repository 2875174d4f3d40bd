"""A limit as if it had one of its bounds alone. Pure."""

from __future__ import annotations

from dataclasses import replace

from limiters.leases import LimitView
from limiters.leases._messages import partitions_of


def alone(view: LimitView, at: int) -> LimitView:
    """Return the view of one bound, into as many partitions as the limit has."""
    bound = view.bounds[at]
    number = partitions_of(view.terms.capacity, view.terms.factor)
    return replace(
        view,
        terms=replace(view.terms, bounds=(bound.terms,), factor=bound.terms.capacity / number),
        bounds=(bound,),
        instances=tuple(replace(one, bounds=(one.bounds[at],)) for one in view.instances),
    )
