"""A limit and its instances as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dispatcher.cli._commands.top.cells import CELLS, FREE, cells, colour_of, drawn, row_of
from dispatcher.cli._commands.top.memory import Memory, is_short, is_short_of, waits_for_permit
from dispatcher.cli._commands.top.spans import Line, TextSpan, line, wrapped
from dispatcher.cli._text.bars import bar
from dispatcher.cli._text.by_bound import held_of, in_lines, scarcest
from dispatcher.cli._text.moments import duration
from dispatcher.cli._text.one_bound import alone
from dispatcher.cli._text.showable import printable
from dispatcher.cli._text.wording import (
    about,
    capacity,
    grants,
    in_partitions,
    not_shown,
    permit_cost,
    share_of,
    shortened,
    skew,
    standing,
    waiters,
)
from limiters.leases import InstanceView, LimitView

LEAST_LABEL = 16
LEAST_NAME, LEAST_TITLE = 12, 5
"""Minimum widths of names of instances and of bounds, where there are several bounds."""

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
    title, *more = wrapped(f"limit {printable(name)}: {capacity(view)}", width)
    return [
        _with_bold(title, f"limit {printable(name)}"),
        *more,
        *_totals(view, width),
        *_map(view, memory, width),
        line(""),
        *_instances(view, memory, starving, width, fine=fine),
        *_starving(view, memory, starving, width),
    ]


def _with_bold(title: Line, beginning: str) -> Line:
    """Return a line whose beginning stands out, as far as it stands there."""
    (span,) = title
    if not span.text.startswith(beginning):
        return title
    return [TextSpan(beginning, "bold"), TextSpan(span.text.removeprefix(beginning))]


def _totals(view: LimitView, width: int) -> list[Line]:
    lines = [one for said in (*in_lines(view), *waiters(view)) for one in wrapped(said, width)]
    if view.uncertain_ms or view.unconfirmed_ms:
        lines += wrapped(f"grants {grants(view)}", width, "yellow")
    return [*lines, *(one for said in skew(view) for one in wrapped(said, width, "yellow"))]


def _map(view: LimitView, memory: Memory, width: int) -> list[Line]:
    """Of several bounds, the map is of the one of which the least is free."""
    at = scarcest(view)
    shares = [
        (memory.letters[it.instance], it.bounds[at].held) for it in memory.in_order(view.instances)
    ]
    several = len(view.bounds) > 1
    what = f"{view.bounds[at].dimension}, of which the least is free" if several else "the limit"
    meaning = f"a letter is {100 // CELLS} % of {what}; {FREE} is free"
    return [line(""), *drawn(cells(shares), row_of(width)), *wrapped(meaning, width, "dim")]


def _instances(
    view: LimitView, memory: Memory, starving: Mapping[str, float], width: int, *, fine: bool
) -> list[Line]:
    if not view.instances:
        return [line("no instance asks for any of it at present")]
    instances = memory.in_order(view.instances)
    longest = max(len(printable(one.label)) for one in instances)
    lines: list[Line] = []
    for table in _fitted(view, instances, longest, width):
        lines += [line("")] * bool(lines)
        lines += _table(view, memory, starving, table, instances, longest, fine=fine)
        notes = not_shown(table.left_out)
        lines += (one for note in notes for one in wrapped(note, width, "dim"))
    return lines


def _table(
    view: LimitView,
    memory: Memory,
    starving: Mapping[str, float],
    table: _Table,
    instances: Sequence[InstanceView],
    longest: int,
    *,
    fine: bool,
) -> list[Line]:
    label = min(longest, max(LEAST_LABEL if table.bar else LEAST_NAME, table.room - LEAST_BAR))
    room = max(LEAST_BAR, min(MOST_BAR, table.room - label)) if table.bar else 0
    scarce = alone(view, scarcest(view))
    against = "the limit" if len(view.bounds) == 1 else scarce.bounds[0].dimension
    said = f"against {against}"
    use = (said if len(said) <= room else "use"[:room]).ljust(room + 1)
    widths = [max(map(len, column)) for column in zip(table.titles, *table.rows, strict=True)]
    titles = "  ".join(title.rjust(wide) for title, wide in zip(table.titles, widths, strict=True))
    lines: list[Line] = [line(" " * (label + 3) + use + titles, "bold")]
    both = zip(instances, scarce_of(scarce, instances), table.rows, strict=True)
    for one, own, row in both:
        letter = memory.letters[one.instance]
        state = _state(one, starving) if table.has_states else ""
        numbers = "  ".join(cell.rjust(wide) for cell, wide in zip(row, widths, strict=True))
        lines.append(
            [
                TextSpan(f"{letter} ", f"bold {colour_of(letter)}"),
                TextSpan(f"{shortened(printable(one.label), label):<{label}} "),
                *_bar(scarce, own, room, colour_of(letter), fine=fine),
                TextSpan(f" {numbers}"),
                TextSpan(f"  {state}" if state else "", "red"),
            ]
        )
    return lines


class _Table(NamedTuple):
    """The columns of numbers that there is room for."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: Sequence[str]
    room: int
    """The width that is left for names and bars."""
    bar: bool = True
    has_states: bool = True


def _fitted(
    view: LimitView, instances: Sequence[InstanceView], longest: int, width: int
) -> list[_Table]:
    if len(view.bounds) > 1:
        return _fitted_bounds(view, instances, longest, width)
    left_out = [] if width >= NARROW else ["limit"]
    for expendable in (None, *EXPENDABLE):
        left_out += [expendable] if expendable else []
        shown = [title for title in TITLES if title not in left_out]
        rows = [[_cells_of(view, one)[title] for title in shown] for one in instances]
        room = _room(shown, rows, width)
        if room >= min(longest, LEAST_LABEL) + LEAST_BAR:
            break
    return [_Table(shown, rows, left_out, room)]


def _fitted_bounds(
    view: LimitView, instances: Sequence[InstanceView], longest: int, width: int
) -> list[_Table]:
    """A column for what is held of each bound. Where there is no room, names become shorter, then
    bars are left out, then further bounds go on in a table below."""
    left, tables = list(range(len(view.bounds))), list[_Table]()
    while left:
        for most in range(len(left), 0, -1):
            table = _of_bounds(view, instances, left[:most], longest, width)
            if table.room >= min(longest, LEAST_NAME):
                break
        is_first = not tables
        tables.append(table._replace(has_states=is_first, bar=table.bar and is_first))
        left = left[most:]
    return tables


def _of_bounds(
    view: LimitView,
    instances: Sequence[InstanceView],
    places: Sequence[int],
    longest: int,
    width: int,
) -> _Table:
    """Return a table of some bounds, with their names as long as there is room."""
    names = [printable(view.bounds[at].dimension) for at in places]
    rows = [[held_of(view.bounds[at], one.bounds[at].held) for at in places] for one in instances]
    longest_name = max(map(len, names))
    for most in range(longest_name, min(LEAST_TITLE, longest_name) - 1, -1):
        titles = [shortened(name, most) for name in names]
        room = _room(titles, rows, width)
        if room >= min(longest, LEAST_NAME):
            break
    return _Table(titles, rows, [], room, room >= min(longest, LEAST_LABEL) + LEAST_BAR)


def _room(titles: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> int:
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
    return width - sum(widths) - 2 * len(widths) - 4 - len(STATE)


def scarce_of(view: LimitView, instances: Sequence[InstanceView]) -> list[InstanceView]:
    """Return the same instances as the view has them."""
    found = {one.instance: one for one in view.instances}
    return [found[one.instance] for one in instances]


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
    if not room:
        return []
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
                cost = permit_cost(view, [it.waits_for for it in one.bounds])
                said = f"has waited for a permit of {cost} for {long}"
            else:
                said = _too_little(view, one, long)
            lines += wrapped(called + said, width, "red")
    return [line(""), *lines] if lines else []


def _too_little(view: LimitView, one: InstanceView, long: str) -> str:
    """Return what an instance that is short has had for so long, and what it should have."""
    if len(view.bounds) == 1:
        return (
            f"wants {about(one.need)}, holds {in_partitions(view, one.held)} partitions, "
            f"and has had less than its fair share of {in_partitions(view, one.share)} for {long}"
        )
    both = zip(view.bounds, one.bounds, strict=True)
    short = [
        f"{held_of(bound, it.held)} of {bound.dimension} in place of {held_of(bound, it.share)}"
        for bound, it in both
        if is_short_of(it)
    ]
    return f"has had less than its fair share for {long}, {', '.join(short)}"
