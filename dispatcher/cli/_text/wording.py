"""Words for amounts, durations and the state of a limit. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dispatcher.cli._text.moments import duration
from limiters._costs_text import costs_text
from limiters._plain_numbers import plain
from limiters.leases import InstanceView, LimitView
from limiters.leases._bounds import limits_of_terms
from limiters.leases._messages import BoundTerms, Terms
from limiters.leases.protocol import BoundView
from limiters.limits import Limits

LEAST_SKEW_MS = 100
"""Minimum clock skew to report: a few milliseconds are never confirmed."""


def not_shown(left_out: Sequence[str]) -> list[str]:
    """Return a line with the columns that did not fit; none if all did."""
    names = ", ".join(left_out)
    return [f"not shown, since the terminal is narrow: {names}"] if names else []


def shortened(name: str, most: int) -> str:
    """Shorten a name to `most` letters in its middle: host names differ at their ends.

    >>> shortened("orders-writer-7d9f8b6c5d-x2v4q:1", 20), shortened("worker-1:4242", 20)
    ('orders…b6c5d-x2v4q:1', 'worker-1:4242')
    """
    if len(name) <= most:
        return name
    first = (most - 1) // 3
    return f"{name[:first]}…{name[len(name) - (most - 1 - first) :]}"


def exact(amount: float) -> str:
    """Return an amount that a user has set.

    >>> exact(20_000.0), exact(0.125)
    ('20,000', '0.125')
    """
    return f"{amount:,}".removesuffix(".0")


def in_words(amount: float | Limits | Mapping[str, float]) -> str:
    """Return amounts that a user has set, by dimension as they are written.

    >>> in_words(20_000.0), in_words({"tokens": 5.0})
    ('20,000', 'tokens=5')
    """
    if isinstance(amount, Limits):
        return str(amount)
    return costs_text(amount) if isinstance(amount, Mapping) else exact(amount)


def about(amount: float) -> str:
    """Return a measured amount.

    >>> about(16_666.66), about(2.5), about(0.0)
    ('16,667', '2.5', '0')
    """
    return f"{amount:,.0f}" if abs(amount) >= 100 else f"{amount:.3g}"


def per_period(terms: Terms | BoundTerms) -> str:
    """Return the period of a capacity in words.

    >>> [per_period(Terms.scalar(100, 1, period, 5_000)) for period in (1_000, 60_000)]
    ['a second', 'in 60 s']
    """
    return "a second" if terms.period == 1000 else f"in {plain(terms.period / 1000)} s"


def percent(part: float, whole: float) -> str:
    """Return a part of a whole in per cent."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def fractional(partitions: float) -> str:
    """Return a number of partitions, with a fraction where it is not whole.

    >>> fractional(20.0), fractional(20 / 3), fractional(0.02), fractional(2.96)
    ('20', '6.7', '0.02', '3')
    """
    if abs(partitions - round(partitions)) < 0.001 * max(1, partitions):
        # A thousandth of a partition is not nothing.
        return f"{partitions:,.0f}" if round(partitions) or not partitions else f"{partitions:.1g}"
    if partitions >= 1000:
        return f"{partitions:,.0f}"
    return f"{partitions:.1f}".removesuffix(".0") if partitions >= 1 else f"{partitions:.2g}"


def share_of(share: float) -> str:
    """Return a share of the limit in per cent.

    >>> share_of(1 / 3), share_of(0.002), share_of(0.0)
    ('33 %', '0.2 %', '0 %')
    """
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else f"{100 * share:.1g} %"


def in_partitions(view: LimitView, share: float) -> str:
    """Return a share of the limit in partitions.

    >>> from limiters.leases import LimitView
    >>> view = LimitView(Terms.scalar(1_000, 50, 1_000, 5_000), (), 0, "", 0, ())
    >>> in_partitions(view, 1 / 3)
    '6.7'
    """
    return fractional(share * view.partitions)


def of_partitions(view: LimitView, share: float) -> str:
    """Return a share of the limit as users see it: `6.7 of 20`."""
    return f"{in_partitions(view, share)} of {view.partitions:,}"


def shortest(names: Sequence[str]) -> int:
    """Return how many letters distinguish names that all differ; at least eight.

    >>> shortest(["0123456789", "0123456788"]), shortest(["0123456789"])
    (10, 8)
    """
    letters = 8
    while len({name[:letters] for name in names}) < len(set(names)):
        letters += 1
    return letters


def took_part(view: LimitView) -> str:
    """Return how many instances use a limit, in the question whether to change or delete it."""
    count = len(view.instances)
    return f"{count:,} instance{'s' * (count != 1)} took part lately."


def standing(instance: InstanceView) -> str:
    """Return what is unusual about an instance.

    An instance without work holds nothing and makes no requests: that is normal.
    """
    if instance.evicted:
        return "evicted"
    return "lease over" if instance.holds and instance.lease_ms <= 0 else ""


def in_charge(instances: Sequence[InstanceView]) -> list[InstanceView]:
    """Return the instances whose last request counts; demand and spend of others are unknown."""
    return [instance for instance in instances if instance.lease_ms > 0]


def asks_for_permit(one: InstanceView) -> bool:
    """Whether an instance asks for a permit."""
    return any(holding.waits_for > 0 for holding in one.bounds)


def permit_cost(view: LimitView, amounts: Sequence[float]) -> str:
    """Return the cost of permits, given for each bound; of named dimensions by their names, without
    their shorter windows, in which it is the same."""
    parts = written_dimensions(view)
    if parts is None:
        return about(amounts[0])
    found = {name: one for name, one in zip(reversed(parts), reversed(amounts), strict=True) if one}
    return ", ".join(f"{name} {about(one)}" for name, one in reversed(found.items()))


def written_dimensions(view: LimitView) -> list[str] | None:
    """Return the dimension of each bound; None if the only one has no name."""
    if not view.terms.layout:
        return None
    return [one.dimension.partition("/")[0] for one in view.bounds]


def waiting(instances: Sequence[InstanceView]) -> list[InstanceView]:
    """Return the instances that wait for a permit, in the order in which they began to."""
    return sorted(
        (one for one in in_charge(instances) if asks_for_permit(one)),
        key=lambda one: -one.waits_ms,
    )


def waiters(view: LimitView) -> list[str]:
    """Return how many wait for a permit, if any."""
    found = waiting(view.instances)
    if not found:
        return []
    longest = duration(found[0].waits_ms / 1000)
    costs = [[holding.waits_for for holding in one.bounds] for one in found]
    cost = permit_cost(view, [sum(amounts) for amounts in zip(*costs, strict=True)])
    if len(found) == 1:
        return [f"1 waits for a permit of {cost}, for {longest}"]
    return [f"{len(found):,} wait for permits of {cost} in all, the longest for {longest}"]


def capacity(view: LimitView) -> str:
    """Return the capacity in force, and the one it changes to. Of several bounds, how they are
    written."""
    if len(view.bounds) > 1:
        return written(view)
    (bound,) = view.bounds
    return f"{bound.dimension} {capacity_of(bound)}" if bound.dimension else capacity_of(bound)


def capacity_of(bound: BoundView) -> str:
    """Return the capacity of one bound in words."""
    terms = bound.terms
    per = "in flight" if terms.slots else per_period(terms)
    if not bound.rising:
        return f"{exact(terms.capacity)} {per}"
    left = (terms.capacity - bound.capacity) / bound.rising
    return (
        f"{about(bound.capacity)} {per}, rising by {about(bound.rising)} each second to "
        f"{exact(terms.capacity)}, in {duration(left)}"
    )


def written(view: LimitView) -> str:
    """Return the capacities as `limit set` takes them."""
    try:
        return str(limits_of_terms(view.terms))
    except ValueError:  # what is stored was not written by this library
        return ", ".join(f"{one.dimension} {capacity_of(one)}" for one in view.bounds)


def grants(view: LimitView) -> str:
    """Return whether anything new is granted, and why not."""
    cause = f": {view.cause}" if view.cause else ""
    if view.unconfirmed_ms:
        most = duration(view.unconfirmed_ms / 1000)
        return f"nothing new for up to {most} after the next request of an instance{cause}"
    if not view.uncertain_ms:
        return "to all who ask"
    return f"nothing new for {duration(view.uncertain_ms / 1000)}{cause}"


def uncertainty(view: LimitView) -> list[str]:
    """Return an explanation while nothing new is granted."""
    if not view.uncertain_ms and not view.unconfirmed_ms:
        return []
    return [
        "",
        "Nothing new is granted until every lease that may be out has ended and its spending no",
        "longer counts. No action is needed. An instance that proves what it holds keeps it. The",
        "time counts only while instances ask.",
    ]


def skew(view: LimitView) -> list[str]:
    """Return how much time of the server's clock does not count, if any."""
    if view.skew_ms < LEAST_SKEW_MS:
        return []
    skew = duration(view.skew_ms / 1000)
    return [f"{skew} of Redis' clock do not count: it was set forward, or no instance asked"]


def terms_of(view: LimitView) -> list[tuple[str, str]]:
    """Return the terms that were set: (what it is, its value)."""
    terms, number = view.terms, view.partitions
    lease = ("lease time", f"{plain(terms.lease / 1000)} s")
    if terms.layout:
        return [
            *((one.dimension, _bound_in_words(one)) for one in view.bounds),
            ("partitions", f"{number:,}, {'each ' * (number > 1)}{100 / number:.3g} % of all"),
            lease,
        ]
    return [
        ("capacity", capacity(view)),
        ("partitions", f"{number:,}, {'each ' * (number > 1)}worth {_worth(terms, number)}"),
        ("period", f"{plain(terms.period / 1000)} s"),
        lease,
    ]


def _bound_in_words(bound: BoundView) -> str:
    terms, longest = bound.terms, bound.terms.running
    if terms.slots:
        return f"{capacity_of(bound)}, of at most {plain(terms.period / 1000)} s"
    end = f", from the end of calls of at most {plain(longest / 1000)} s" if longest else ""
    return f"{capacity_of(bound)}{end}"


def _worth(terms: Terms, number: int) -> str:
    worth = terms.capacity / number
    return exact(terms.factor) if abs(worth - terms.factor) < 1e-6 * worth else f"{worth:,.6g}"
