"""How amounts, durations and the state of a limit are put into words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from limiters._support.plain_numbers import plain
from limiters.leases import ranges
from limiters.leases.manager import LimitView, MemberView
from limiters.leases.messages import Terms, partitions_of
from limiters.leases.ranges import Ranges

LONGER = ((172_800, 86_400, "days"), (7_200, 3_600, "h"), (120, 60, "min"))

QUARANTINE = (
    "",
    "Nothing new is granted, since it is not known who holds what: the limit is new, or another",
    "factor started it over, or Redis lost it, was restarted or failed over. Who proves to hold",
    "partitions keeps them. It ends by itself, when every lease that may still be out there has",
    "ended and a period has passed.",
)
"""What to say below, while it lasts."""


def exact(amount: float) -> str:
    """What somebody has set.

    >>> exact(20_000.0), exact(0.125)
    ('20,000', '0.125')
    """
    return f"{amount:,}".removesuffix(".0")


def about(amount: float) -> str:
    """What was measured.

    >>> about(16_666.66), about(2.5), about(0.0)
    ('16,667', '2.5', '0')
    """
    return f"{amount:,.0f}" if abs(amount) >= 100 else f"{amount:.3g}"


def duration(seconds: float) -> str:
    """What was measured.

    >>> duration(0.4), duration(75), duration(300), duration(7_200), duration(200_000)
    ('0.4 s', '75 s', '5 min', '2 h', '2 days')
    """
    for least, unit, name in LONGER:
        if seconds >= least:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def per_period(terms: Terms) -> str:
    """How often a capacity comes anew.

    >>> per_period(Terms(100, 1, 1_000, 5_000)), per_period(Terms(100, 1, 60_000, 5_000))
    ('a second', 'in 60 s')
    """
    return "a second" if terms.period_ms == 1000 else f"in {plain(terms.period_ms / 1000)} s"


def percent(part: float, whole: float) -> str:
    """A part of a whole."""
    return f"{100 * part / whole:.0f} %" if whole else "-"


def partitions(view: LimitView) -> int:
    """How many there are, also before an instance has asked for the first of them."""
    return partitions_of(view.capacity, view.terms.factor)


def free(view: LimitView) -> Ranges:
    """Those that nobody holds."""
    left = ranges.span(0, partitions(view))
    for member in view.members:
        left = ranges.without(left, member.held)
    return left


def counted(held: Ranges) -> str:
    """A set of partitions.

    >>> counted(((0, 4), (7, 7))), counted(())
    ('6: 0-4,7', 'none')
    """
    return f"{ranges.count(held)}: {ranges.text(held)}" if held else "none"


def shortest(names: Sequence[str]) -> int:
    """How many letters of names that all differ tell them apart; eight at least.

    >>> shortest(["0123456789", "0123456788"]), shortest(["0123456789"])
    (10, 8)
    """
    letters = 8
    while len({name[:letters] for name in names}) < len(set(names)):
        letters += 1
    return letters


def standing(member: MemberView) -> str:
    """What is out of the ordinary with it.

    An instance that has nothing to do holds nothing and is not heard of: that is in order.
    """
    if member.evicted:
        return "evicted"
    return "lease over" if member.held and member.lease_ms <= 0 else ""


def in_charge(members: Sequence[MemberView]) -> list[MemberView]:
    """Those whose last word still counts. Of others it is not known what they want or spend."""
    return [member for member in members if member.lease_ms > 0]


def capacity(view: LimitView) -> str:
    """What is in force, and what it will be."""
    terms, period = view.terms, per_period(view.terms)
    if not view.rising:
        return f"{exact(terms.capacity)} {period}"
    left = (terms.capacity - view.capacity) / view.rising
    return (
        f"{about(view.capacity)} {period}, rising by {about(view.rising)} each second to "
        f"{exact(terms.capacity)}, in {duration(left)}"
    )


def quarantine(view: LimitView) -> str:
    """Whether anything new is granted, and why not."""
    if not view.quarantine_ms:
        return "to all who ask"
    return f"nothing new for {duration(view.quarantine_ms / 1000)}"


def terms_of(view: LimitView) -> list[tuple[str, str]]:
    """What was set: (what it is, its value)."""
    terms, number = view.terms, partitions(view)
    last = view.capacity - (number - 1) * terms.factor
    worth = f"{number:,}, each worth {exact(terms.factor)}"
    if number == 1:
        worth, last = f"1, worth {exact(last)}", terms.factor
    if number and terms.factor - last > 1e-6 * terms.factor:
        worth += f", the last one {last:,.6g}"
    return [
        ("capacity", capacity(view)),
        ("partitions", worth),
        ("period", f"{plain(terms.period_ms / 1000)} s"),
        ("lease time", f"{plain(terms.lease_ms / 1000)} s"),
    ]
