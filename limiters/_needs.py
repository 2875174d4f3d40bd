"""What an instance needs of each bound, in the shape of its mix of operations. Pure.

Fair shares grow alike in all bounds (dominant resource fairness), so what an instance states has to
fit together: what it could spend in a period of each bound if the limit were its own. Its *mix* is
what waits and what it spent lately. The fastest flow of that mix which no bound stops is the most
that it can need; where less than that waits, it needs less.

Calls in flight follow from the flow, too: an instance that is slowed down by a rate has fewer of
them than it would have without, by the same factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is known of one bound."""

    need: float
    """What could be spent in a period, as far as this bound knows; of slots, the calls that could
    run."""
    mix: float
    """What waits, and what was spent lately; of slots, the calls that ran at peak."""
    lately: float
    """What of the mix was spent lately; of slots, 0."""
    capacity: float
    period: float
    slots: bool = False


def needs_of(bounds: Sequence[Wanted], seconds: float) -> list[float]:
    """What is needed of each bound. `seconds` is how long the mix was spent lately.

    >>> requests, tokens = Wanted(900, 900, 0, 60, 6.0), Wanted(360_000, 360_000, 0, 9_000, 6.0)
    >>> needs_of([requests, tokens], seconds=6.0)
    [22.5, 9000.0]
    """
    rates = [one for one in bounds if not one.slots and one.mix > 0]
    if len(bounds) == 1 or not rates:
        return [one.need for one in bounds]
    calls = _growth(rates) * seconds
    flows = [one.mix * (calls if one.slots else one.period) for one in bounds]
    parts = (one.capacity / flow for one, flow in zip(bounds, flows, strict=True) if flow > 0)
    most = min(parts, default=0.0)
    full = [flow * most for flow in flows]
    if not any(flow for one, flow in zip(bounds, full, strict=True) if not one.slots):
        return [min(one.need, one.capacity) for one in bounds]  # the mix vanishes in a product
    part = max(
        min(1.0, one.need / flow)
        for one, flow in zip(bounds, full, strict=True)
        if not one.slots and flow > 0
    )
    return [
        min(one.capacity, max(one.need, flow * part) if one.slots else min(one.need, flow))
        for one, flow in zip(bounds, full, strict=True)
    ]


def _growth(rates: Sequence[Wanted]) -> float:
    """How much more the whole mix is than what was spent of it. 0 if nothing was: then it is not
    known how many calls it takes."""
    spent = math.fsum(one.lately * one.period / one.capacity for one in rates)
    mixed = math.fsum(one.mix * one.period / one.capacity for one in rates)
    return mixed / spent if spent > 0 else 0.0
