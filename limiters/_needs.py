"""The need of an instance in each bound, by its mix of operations. Pure.

Fair shares grow together in all bounds (dominant resource fairness), so the needs of an instance
have to fit together: they are what it could spend in a period of each bound if it had the whole
limit. Its *mix* is the cost that waits and that it spent recently. Its largest need is the fastest
flow of that mix that all bounds allow; if less than that waits, it needs less.

Calls in flight follow from the flow, too: an instance that is slowed down by a rate has fewer of
them than it would have without, by the same factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SOON = 1.0
"""Seconds in which what waits is to go, if there is room for it: as long as an answer and the next
sync take, as a rule."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The demand of one bound."""

    need: float
    """The cost that could be spent in a period, by this bound alone; for slots, the calls that
    could run."""
    mix: float
    """The waiting and the recent cost; for slots, the calls that ran at peak."""
    lately: float
    """The recent part of the mix; for slots, 0."""
    capacity: float
    period: float
    slots: bool = False


def needs_of(bounds: Sequence[Wanted], seconds: float) -> list[float]:
    """Return the need of each bound. `seconds` is the time in which the recent part of the mix was
    spent.

    >>> requests, tokens = Wanted(900, 900, 0, 60, 6.0), Wanted(360_000, 360_000, 0, 9_000, 6.0)
    >>> needs_of([requests, tokens], seconds=6.0)
    [22.5, 9000]
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
    """Return the ratio of the whole mix to its recent part. 0 if there is no recent part: then the
    number of calls that it takes is unknown."""
    spent = math.fsum(one.lately * one.period / one.capacity for one in rates)
    mixed = math.fsum(one.mix * one.period / one.capacity for one in rates)
    return mixed / spent if spent > 0 else 0.0
