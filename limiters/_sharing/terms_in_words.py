"""The terms of a limit in words: what has changed, what differs, and the command that changes it.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from shlex import quote
from typing import NamedTuple

from limiters._limits_text import dimension_text
from limiters._plain_numbers import plain
from limiters.leases._bounds import limits_of_terms
from limiters.leases._layout import names_of, parts_of
from limiters.leases._messages import BoundTerms, Terms
from limiters.limits import Limits


class NamedTerm(NamedTuple):
    """One of the terms of a limit, as people know it."""

    name: str
    value: float
    option: str
    """The option of `dispatcher limit set` that changes it."""
    dimension: str = ""
    """The name of the bound; "" of a limit of one rate without a name."""


def named_terms(terms: Terms) -> tuple[NamedTerm, ...]:
    """Return the terms of a limit, in order."""
    lease = NamedTerm("lease time", terms.lease / 1000, "lease-time")
    if not terms.layout:
        return (
            NamedTerm("shared capacity", terms.capacity, "shared-capacity"),
            NamedTerm("factor", terms.factor, "factor"),
            NamedTerm("period", terms.period / 1000, "period"),
            lease,
        )
    names = names_of(terms.layout, [one.period for one in terms.bounds])
    capacities, periods = [], []
    for name, one in zip(names, terms.bounds, strict=True):
        capacities.append(NamedTerm(f"capacity of {name}", one.capacity, "shared-capacity", name))
        what = "longest call" if one.slots else "period"
        periods.append(NamedTerm(f"{what} of {name}", one.period / 1000, "period", name))
    return (*capacities, *periods, lease)


def options(terms: Terms, some: Sequence[NamedTerm]) -> str:
    """Return the options of `dispatcher limit set` that give a limit some of these terms: of
    dimensions, all windows of each.

    >>> terms = Terms.scalar(9.0, 1.0, 1_000, 5_000)
    >>> options(terms, [named_terms(terms)[0], named_terms(terms)[3]])
    '--shared-capacity 9 --lease-time 5'
    """
    dimensions = {one.dimension.partition("/")[0] for one in some if one.dimension}
    limits = limits_of_terms(terms)
    by_option: dict[str, str] = {}
    if isinstance(limits, Limits) and dimensions:
        by_option["shared-capacity"] = ",".join(
            f"{name}={dimension_text(one, usual=True)}"
            for name, one in limits.items()
            if name in dimensions
        )
    by_option |= {one.option: plain(one.value) for one in some if not one.dimension}
    return " ".join(f"--{name} {quote(value)}" for name, value in by_option.items())


def capacity_of(terms: Terms) -> float | dict[str, float]:
    """Return the capacity of a limit, by the names of its bounds if there are several."""
    if len(terms.bounds) == 1:
        return terms.capacity
    names = names_of(terms.layout, [one.period for one in terms.bounds])
    return {name: one.capacity for name, one in zip(names, terms.bounds, strict=True)}


def differences(own: Terms, stored: Terms) -> str:
    """Return how the dimensions, windows and calls of this instance differ from those that are
    stored; "" if they do not.

    >>> one = Terms.scalar(10.0, 1.0, 1_000, 2_000)
    >>> differences(one, one)
    ''
    """
    if (own.layout, len(own.bounds)) == (stored.layout, len(stored.bounds)) and (
        not own.layout or all(map(BoundTerms.agrees, own.bounds, stored.bounds))
    ):
        return ""
    mine, theirs = dict(_described(own)), dict(_described(stored))
    if in_another_order(own, stored):
        there, here = ", ".join(theirs), ", ".join(mine)
        return f"this instance has the dimensions in another order ({here}) than that ({there})"
    unlike = [
        f"{name or 'its only dimension'} is {mine.get(name, 'no dimension')} here and "
        f"{theirs.get(name, 'no dimension')} there"
        for name in dict.fromkeys((*mine, *theirs))
        if mine.get(name) != theirs.get(name)
    ]
    return f"this instance was made with other dimensions ({'; '.join(unlike)}) than those"


def in_another_order(own: Terms, stored: Terms) -> bool:
    """Return whether the dimensions of this instance are those that are stored, in another order:
    that of a limit stays."""
    return own.layout != stored.layout and dict(_described(own)) == dict(_described(stored))


def _described(terms: Terms) -> Iterator[tuple[str, str]]:
    """Return each dimension and its description."""
    found: dict[str, str] = {}
    for part, one in zip(parts_of(terms.layout), terms.bounds, strict=True):
        period = plain(one.period / 1000)
        if part.slots:
            what = f"a number of calls in flight, of at most {period} s each"
            what += "" if part.strict else ", not strict"
        else:
            what = f"a rate per {period} s"
            what += f", counted from the end of calls of at most {plain(one.running / 1000)} s" * (
                part.counts == "end"
            )
        outer = found.get(part.dimension)
        found[part.dimension] = what if outer is None else f"{outer}, within it one per {period} s"
    yield from found.items()
