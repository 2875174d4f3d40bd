"""The limits that users name, as terms that instances and coordinators agree on, and back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from limiters._plain_numbers import exact
from limiters._support import durations
from limiters.leases._layout import BoundLayout, layout_of, parts_of
from limiters.leases._messages import BoundTerms, Terms, milliseconds_up
from limiters.limits import BURST, MOST_BURST_S, Bound, BoundKind, InFlight, Limits, Rate

DEFAULT_PARTS = 100
"""Into how many partitions people see Limits divided."""


def usual_factor(limits: Limits, parts: int | None = None) -> float:
    """What a partition is worth, unless it is said, in cost of the first bound."""
    return limits.bounds[0].capacity / (parts or DEFAULT_PARTS)


def terms_of_limits(limits: Limits, factor: float, lease: int) -> Terms:
    """The terms of these limits, with partitions of `factor` of the first bound.

    >>> from limiters import InFlight, Rate
    >>> limits = Limits(tokens=Rate(9_000, per=6), calls=InFlight(20))
    >>> terms = terms_of_limits(limits, factor=90, lease=2_000)
    >>> terms.layout, [bound.units for bound in terms.bounds]
    ('tokens:start,calls:slots', [4294967296, 20])
    """
    return Terms(
        tuple(map(_terms_of, limits.bounds)),
        factor,
        lease,
        layout_of(list(map(_part, limits.bounds))),
    )


def _terms_of(bound: Bound) -> BoundTerms:
    if bound.kind is BoundKind.SLOTS:
        return BoundTerms.in_flight(round(bound.capacity), milliseconds_up(bound.period))
    running = milliseconds_up(bound.max_operation_time)
    return BoundTerms.rate(bound.capacity, milliseconds_up(bound.period), running=running)


def _part(bound: Bound) -> BoundLayout:
    if bound.kind is BoundKind.SLOTS:
        return BoundLayout(bound.dimension, slots=True, strict=bound.strict)
    return BoundLayout(bound.dimension, counts="end" if bound.at_end else "start")


def limits_of_terms(terms: Terms) -> float | Limits:
    """What users write for a limit with these terms: a number, where its one rate has no name. The
    bursts are those by default. ValueError if users cannot write them.

    >>> from limiters import InFlight, Rate
    >>> limits = Limits(tokens=Rate(90, per=6, also=[Rate(20)]), calls=InFlight(20, strict=False))
    >>> limits_of_terms(terms_of_limits(limits, factor=1, lease=2_000)) == limits
    True
    """
    if not terms.layout:
        return terms.capacity
    found: dict[str, Rate | InFlight] = {}
    for part, one in zip(parts_of(terms.layout), terms.bounds, strict=True):
        name, period, outer = part.dimension, one.period / 1000, found.get(part.dimension)
        if part.slots:
            found[name] = InFlight(round(one.capacity), part.strict, period)
        elif isinstance(outer, Rate):
            found[name] = replace(outer, also=[*outer.also, Rate(one.capacity, period)])
        elif part.counts == "end":
            longest = max(one.running, 1) / 1000
            found[name] = Rate(one.capacity, period, counts="end", max_operation_time=longest)
        else:
            found[name] = Rate(one.capacity, period)
    return Limits(**found)


def amount_text(one: BoundTerms) -> str:
    """One bound as people write it.

    >>> amount_text(BoundTerms.rate(600, 60_000)), amount_text(BoundTerms.in_flight(20, 60_000))
    ('600/60s', '20slots')
    """
    if one.slots:
        return f"{exact(one.capacity)}slots"
    return f"{exact(one.capacity)}/{durations.written(one.period / 1000)}"


def bounds_of(terms: Terms) -> tuple[Bound, ...]:
    """The bounds under these terms, each with the burst that it has by default."""
    parts = parts_of(terms.layout)
    shortest: dict[str, float] = {}
    for part, one in zip(parts, terms.bounds, strict=True):
        second = one.capacity / max(one.period / 1000, 1e-9)
        most = min(BURST * one.capacity, MOST_BURST_S * second)
        shortest[part.dimension] = min(most, shortest.get(part.dimension, most))
    pairs = zip(parts, terms.bounds, strict=True)
    return tuple(_bound_of(part, one, shortest[part.dimension]) for part, one in pairs)


def _bound_of(part: BoundLayout, terms: BoundTerms, burst: float) -> Bound:
    period = terms.period / 1000
    if part.slots:
        kind = BoundKind.SLOTS
        return Bound(
            part.dimension, kind, terms.capacity, period, terms.capacity, False, period, part.strict
        )
    return Bound(
        part.dimension,
        BoundKind.RATE,
        terms.capacity,
        period,
        burst,
        part.counts == "end",
        terms.running / 1000,
    )


def in_force(bounds: Sequence[Bound], terms: Terms) -> tuple[Bound, ...]:
    """The same bounds with the capacities and periods that terms have. What may go at once changes
    along with the capacity."""
    return tuple(
        replace(
            bound,
            capacity=one.capacity,
            period=one.period / 1000,
            burst=bound.burst / bound.capacity * one.capacity,
        )
        for bound, one in zip(bounds, terms.bounds, strict=True)
    )
