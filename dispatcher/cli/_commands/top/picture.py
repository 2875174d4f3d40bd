"""A limit and its instances as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from dispatcher.cli._commands.top.cells import CELLS, FREE, cells, colour_of, drawn, row_of
from dispatcher.cli._commands.top.memory import Memory, is_short, waits_for_permit
from dispatcher.cli._commands.top.spans import Line, TextSpan, line, wrapped
from dispatcher.cli._text.bars import bar
from dispatcher.cli._text.moments import duration
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import (
    about,
    capacity,
    grants,
    in_charge,
    in_partitions,
    not_shown,
    of_partitions,
    percent,
    share_of,
    shortened,
    skew,
    standing,
    waiters,
)
from limiters.leases import InstanceView, LimitView

LEAST_LABEL = 16
LEAST_BAR, MOST_BAR = 8, 40
NARROW = 100
"""Width below which the per cents are only in the map."""

STATE = "  starving 10 min"
"""Maximum width of an instance's state."""

TITLES = ("held", "limit", "wants", "spends", "share")

EXPENDABLE = ("share", "wants")
"""Columns that are left out where the terminal is narrower still, in this order."""


def of_limit(
    name: str, view: LimitView, memory: Memory, now: float, width: int, *, fine: bool = True
) -> list[Line]:
    """Return a limit in lines of about `width`."""
    starving = memory.starving(view, now)
    return [
        [TextSpan(f"limit {printable(name)}", "bold"), TextSpan(f": {capacity(view)}")],
        *_totals(view, width),
        *_map(view, memory, width),
        line(""),
        *_instances(view, memory, starving, width, fine=fine),
        *_starving(view, memory, starving, width),
    ]


def _totals(view: LimitView, width: int) -> list[Line]:
    counting = in_charge(view.instances)
    demand, spent = sum(it.need for it in counting), sum(it.spent for it in counting)
    held = 1 - view.free
    lines = [
        line(f"{of_partitions(view, held)} partitions held ({share_of(held)} of the limit)"),
        line(
            f"demand {about(demand)} ({percent(demand, view.capacity)} of the capacity), "
            f"spend {about(spent)} ({percent(spent, view.capacity)})"
        ),
        *map(line, waiters(view)),
    ]
    if view.uncertain_ms or view.unconfirmed_ms:
        lines += wrapped(f"grants {grants(view)}", width, "yellow")
    return [*lines, *(one for said in skew(view) for one in wrapped(said, width, "yellow"))]


def _map(view: LimitView, memory: Memory, width: int) -> list[Line]:
    shares = [(memory.letters[it.instance], it.held) for it in memory.in_order(view.instances)]
    meaning = f"a letter is {100 // CELLS} % of the limit; {FREE} is free"
    return [line(""), *drawn(cells(shares), row_of(width)), line(meaning, "dim")]


def _instances(
    view: LimitView, memory: Memory, starving: Mapping[str, float], width: int, *, fine: bool
) -> list[Line]:
    if not view.instances:
        return [line("no instance asks for any of it at present")]
    instances = memory.in_order(view.instances)
    longest = max(len(printable(one.label)) for one in instances)
    left_out = [] if width >= NARROW else ["limit"]
    for expendable in (None, *EXPENDABLE):
        left_out += [expendable] if expendable else []
        shown = [title for title in TITLES if title not in left_out]
        rows = [[_cells_of(view, one)[title] for title in shown] for one in instances]
        widths = [max(map(len, column)) for column in zip(shown, *rows, strict=True)]
        room = width - sum(widths) - 2 * len(widths) - 4 - len(STATE)
        if room >= min(longest, LEAST_LABEL) + LEAST_BAR:
            break
    label = min(longest, max(LEAST_LABEL, room - LEAST_BAR))
    room = max(LEAST_BAR, min(MOST_BAR, room - label))
    said = "against the limit"
    head = " " * (label + 3) + (said if len(said) <= room else "use").ljust(room + 1)
    titles = "  ".join(title.rjust(wide) for title, wide in zip(shown, widths, strict=True))
    lines: list[Line] = [line(head + titles, "bold")]
    for one, row in zip(instances, rows, strict=True):
        letter = memory.letters[one.instance]
        state = _state(one, starving)
        numbers = "  ".join(cell.rjust(wide) for cell, wide in zip(row, widths, strict=True))
        lines.append(
            [
                TextSpan(f"{letter} ", f"bold {colour_of(letter)}"),
                TextSpan(f"{shortened(printable(one.label), label):<{label}} "),
                *_bar(view, one, room, colour_of(letter), fine=fine),
                TextSpan(f" {numbers}"),
                TextSpan(f"  {state}" if state else "", "red"),
            ]
        )
    return [*lines, *(one for note in not_shown(left_out) for one in wrapped(note, width, "dim"))]


def _cells_of(view: LimitView, one: InstanceView) -> Mapping[str, str]:
    return {
        "held": in_partitions(view, one.held),
        "limit": share_of(one.held),
        "wants": about(one.need),
        "spends": about(one.spent),
        "share": in_partitions(view, one.share),
    }


def _bar(
    view: LimitView, one: InstanceView, room: int, colour: str, *, fine: bool
) -> list[TextSpan]:
    """Return a bar of what the instance spends of what it holds, against the whole limit; with
    permits it may spend more."""
    held = len(bar(one.held, 1, room, fine=False))
    spent = bar(one.spent, view.capacity, room, fine=fine)
    if one.spent <= one.held * view.capacity:
        spent = spent[:held]
    rest = max(0, held - len(spent))
    return [
        TextSpan(spent, colour),
        TextSpan(("░" if fine else "-") * rest, colour),
        TextSpan(" " * (room - len(spent) - rest)),
    ]


def _state(one: InstanceView, starving: Mapping[str, float]) -> str:
    if one.instance in starving:
        return f"starving {duration(starving[one.instance])}"
    if standing(one):
        return standing(one)
    if waits_for_permit(one):
        return f"waits {duration(one.waits_ms / 1000)}"
    return "short" if is_short(one) else ""


def _starving(
    view: LimitView, memory: Memory, starving: Mapping[str, float], width: int
) -> list[Line]:
    lines: list[Line] = []
    for one in memory.in_order(view.instances):
        if one.instance in starving:
            called = f"{memory.letters[one.instance]} {printable(one.label)} is starving: it "
            long = duration(starving[one.instance])
            if waits_for_permit(one):
                said = f"has waited for a permit of {about(one.waits_for)} for {long}"
            else:
                said = (
                    f"wants {about(one.need)}, holds {in_partitions(view, one.held)} partitions, "
                    f"and has had less than its fair share of {in_partitions(view, one.share)} "
                    f"for {long}"
                )
            lines += wrapped(called + said, width, "red")
    return [line(""), *lines] if lines else []
