"""What `dispatcher leases` shows of a limit, as a table or as JSON. Pure."""

from __future__ import annotations

from dispatcher.cli.options import printable
from dispatcher.cli.tables import Page, Row
from dispatcher.cli.wording import (
    about,
    capacity,
    duration,
    free,
    in_charge,
    partitions,
    percent,
    quarantine,
    shortest,
    standing,
)
from limiters.leases import LimitView, MemberView, ranges

COLUMNS = (
    "instance",
    "host:process",
    "partitions",
    ">lease",
    ">wants",
    ">spends",
    ">share",
    ">weight",
    ">reserved",
    ">silent",
    "",
)

NOBODY = "no instance asks for any of it at present"


def page(name: str, view: LimitView) -> Page:
    """A row for each instance, and the sums."""
    members = sorted(view.members, key=lambda member: (member.label, member.instance))
    letters = shortest([member.instance for member in members])
    return Page(
        COLUMNS,
        [_row(member, letters) for member in members],
        (f"limit {printable(name)}: {capacity(view)}", "", *[NOBODY] * (not members)),
        ("", *_summary(view)),
    )


def _row(member: MemberView, letters: int) -> Row:
    state = standing(member)
    cells = (
        printable(member.instance[:letters]),
        printable(member.label),
        ranges.text(member.held) or "-",
        duration(member.lease_ms / 1000) if member.held and member.lease_ms > 0 else "-",
        about(member.need),
        about(member.spent),
        about(member.share),
        about(member.weight),
        about(member.reserved),
        duration(member.seen_ms / 1000),
        state,
    )
    return Row(cells, marked=bool(state))


def _summary(view: LimitView) -> list[str]:
    demand, spend = _sums(view)
    number, most = partitions(view), view.capacity
    lines = [
        f"{number - ranges.count(free(view)):,} of {number:,} partitions used, "
        f"demand {about(demand)} ({percent(demand, most)} of the capacity), "
        f"spend {about(spend)} ({percent(spend, most)})"
    ]
    if view.quarantine_ms:
        lines.append(f"grants {quarantine(view)}; dispatcher limit show says why")
    return lines


def _sums(view: LimitView) -> tuple[float, float]:
    counting = in_charge(view.members)
    return sum(one.need for one in counting), sum(one.spent for one in counting)


def as_json(name: str, view: LimitView) -> dict[str, object]:
    """The same for scripts: numbers in their units, durations in seconds."""
    demand, spend = _sums(view)
    return {
        "name": name,
        "capacity_in_force": view.capacity,
        "period": view.terms.period_ms / 1000,
        "partitions": partitions(view),
        "used": partitions(view) - ranges.count(free(view)),
        "demand": demand,
        "spend": spend,
        "quarantine": view.quarantine_ms / 1000,
        "members": [_member_as_json(member) for member in view.members],
    }


def _member_as_json(member: MemberView) -> dict[str, object]:
    return {
        "instance": member.instance,
        "label": member.label,
        "partitions": ranges.text(member.held),
        "lease_left": member.lease_ms / 1000,
        "wants": member.need,
        "spends": member.spent,
        "fair_share": member.share,
        "weight": member.weight,
        "reserved": member.reserved,
        "heard_of": member.seen_ms / 1000,
        "evicted": member.evicted,
    }
