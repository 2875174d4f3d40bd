"""A limit and its instances as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dispatcher.cli.bars import bar
from dispatcher.cli.options import printable
from dispatcher.cli.top.cells import FREE, cells, colour_of, drawn
from dispatcher.cli.top.memory import Memory, is_short
from dispatcher.cli.top.spans import Line, Span, line
from dispatcher.cli.wording import (
    about,
    capacity,
    duration,
    in_charge,
    partitions,
    percent,
    quarantine,
    standing,
)
from limiters.leases import LimitView, MemberView, ranges

LABEL = 24
LEAST_BAR, MOST_BAR = 8, 40

TITLES = ("held", "used", "wants", "share")


def of_limit(
    name: str, view: LimitView, memory: Memory, now: float, width: int, *, fine: bool = True
) -> list[Line]:
    """All that is known of a limit, in lines of about `width`."""
    starving = memory.starving(view, now)
    return [
        [Span(f"limit {printable(name)}", "bold"), Span(f": {capacity(view)}")],
        *_totals(view),
        *_map(view, memory, width),
        line(""),
        *_instances(view, memory, starving, width, fine=fine),
        *_starving(view, memory, starving),
    ]


def _totals(view: LimitView) -> list[Line]:
    counting = in_charge(view.members)
    demand, spent = sum(it.need for it in counting), sum(it.spent for it in counting)
    held = sum(ranges.count(it.held) for it in counting)
    lines = [
        line(
            f"{held:,} of {partitions(view):,} partitions held, "
            f"demand {about(demand)} ({percent(demand, view.capacity)} of the capacity), "
            f"spend {about(spent)} ({percent(spent, view.capacity)})"
        )
    ]
    if view.quarantine_ms:
        lines.append(line(f"grants {quarantine(view)}", "yellow"))
    return lines


def _map(view: LimitView, memory: Memory, width: int) -> list[Line]:
    holders = [FREE] * partitions(view)
    for member in view.members:
        for first, last in member.held:
            for at in range(first, min(last + 1, len(holders))):
                holders[at] = memory.letters[member.instance]
    if not holders:
        return []
    letters, each = cells(holders, width)
    meaning = "a letter is a partition" if each == 1 else f"a letter is {each:,} partitions"
    return [line(""), *drawn(letters, width), line(f"{meaning}; {FREE} is free", "dim")]


def _instances(
    view: LimitView, memory: Memory, starving: Mapping[str, float], width: int, *, fine: bool
) -> list[Line]:
    if not view.members:
        return [line("no instance asks for any of it at present")]
    members = memory.in_order(view.members)
    rows = [_cells_of(member) for member in members]
    widths = [max(map(len, column)) for column in zip(TITLES, *rows, strict=True)]
    label = min(LABEL, max(len(printable(member.label)) for member in members))
    room = width - label - sum(widths) - 2 * len(widths) - 4 - len("  starving 10 min")
    room = max(LEAST_BAR, min(MOST_BAR, room))
    head = "  " + " " * (label + 1) + "against the limit"[:room].ljust(room + 1)
    titles = "  ".join(title.rjust(wide) for title, wide in zip(TITLES, widths, strict=True))
    lines: list[Line] = [line(head + titles, "bold")]
    for member, row in zip(members, rows, strict=True):
        letter = memory.letters[member.instance]
        state = _state(member, starving)
        numbers = "  ".join(cell.rjust(wide) for cell, wide in zip(row, widths, strict=True))
        lines.append(
            [
                Span(f"{letter} ", f"bold {colour_of(letter)}"),
                Span(f"{printable(member.label)[:label]:<{label}} "),
                *_bar(view, member, room, colour_of(letter), fine=fine),
                Span(f" {numbers}"),
                Span(f"  {state}" if state else "", "red"),
            ]
        )
    return lines


def _cells_of(member: MemberView) -> tuple[str, ...]:
    return (
        f"{ranges.count(member.held):,}",
        about(member.spent),
        about(member.need),
        about(member.share),
    )


def _bar(view: LimitView, member: MemberView, room: int, colour: str, *, fine: bool) -> list[Span]:
    """What it spends of what it holds, against the whole limit."""
    held = min(ranges.count(member.held) * view.terms.factor, view.capacity)
    outer = len(bar(held, view.capacity, room, fine=False))
    spent = bar(min(member.spent, held), view.capacity, room, fine=fine)[:outer]
    return [
        Span(spent, colour),
        Span(("░" if fine else "-") * (outer - len(spent)), colour),
        Span(" " * (room - outer)),
    ]


def _state(member: MemberView, starving: Mapping[str, float]) -> str:
    if member.instance in starving:
        return f"starving {duration(starving[member.instance])}"
    return standing(member) or ("short" if is_short(member) else "")


def _starving(view: LimitView, memory: Memory, starving: Mapping[str, float]) -> list[Line]:
    lines: list[Line] = []
    for member in memory.in_order(view.members):
        if member.instance in starving:
            lines.append(
                line(
                    f"{memory.letters[member.instance]} {printable(member.label)} is starving: it "
                    f"wants {about(member.need)}, holds {counted_partitions(member)}, and has had "
                    f"less than its fair share of {about(member.share)} for "
                    f"{duration(starving[member.instance])}",
                    "red",
                )
            )
    return [line(""), *lines] if lines else []


def counted_partitions(member: MemberView) -> str:
    """How many it holds."""
    number = ranges.count(member.held)
    return f"{number:,} partition{'s' * (number != 1)}"
