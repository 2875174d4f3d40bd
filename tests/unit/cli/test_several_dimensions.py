"""Tables and pictures of a limit of several dimensions: readable at 80 columns with five bounds."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from dispatcher.cli._commands.leases.table import page
from dispatcher.cli._commands.limit.ramp import OneRamp, by_second, read_ramp
from dispatcher.cli._commands.top.memory import Memory
from dispatcher.cli._commands.top.picture import of_limit
from dispatcher.cli._commands.top.spans import plain
from dispatcher.cli._terminal import tables
from dispatcher.cli._terminal.tables import _rich, fitted
from dispatcher.cli._text.one_bound import alone
from dispatcher.cli._text.wording import capacity
from limiters import Limits
from limiters.leases import InstanceView, LimitView
from limiters.leases._bounds import terms_of_limits
from limiters.leases._messages import BoundTerms
from limiters.leases._terms_change import BoundChange, LimitChange
from limiters.leases.protocol import BoundView, HoldingView, dimensions_of
from tests.views import instance, limit

FIVE = "requests=600/60s+10/1s,tokens=90000/60s,calls=20slots,bytes_out=5000000000/1s"
BUSY = (0.3, 0.5, 1.2, 0.3, 0.0)
FED = (0.5, 0.5, 0.7, 0.5, 0.0)
"""Parts of a bound: held, fair share, need, spending, and the cost of an awaited permit."""


def several(text: str, *rows: tuple[float, ...]) -> LimitView:
    """A limit in which each instance has these parts of each bound."""
    terms = terms_of_limits(Limits.parse(text), 6, 5_000)
    names = dimensions_of(terms)
    pods = [_pod(number, row, terms.bounds, names) for number, row in enumerate(rows)]
    bounds = tuple(
        BoundView(
            one,
            capacity=one.capacity,
            free=1 - sum(pod.bounds[at].held for pod in pods),
            dimension=name,
        )
        for at, (name, one) in enumerate(zip(names, terms.bounds, strict=True))
    )
    return limit(*pods, terms=terms, bounds=bounds)


def _pod(
    number: int, row: Sequence[float], bounds: Sequence[BoundTerms], names: Sequence[str]
) -> InstanceView:
    held, share, need, spent, waits_for = row
    holdings = tuple(
        HoldingView(
            dimension=name,
            held=held,
            share=share,
            need=need * one.capacity,
            spent=spent * one.capacity,
            waits_for=waits_for * one.capacity,
        )
        for name, one in zip(names, bounds, strict=True)
    )
    label = f"orders-writer-7d9f8b6c5d-x2v4{number}:1"
    return instance(str(number), label=label, bounds=holdings)


def top(view: LimitView, width: int, now: float = 0.0) -> list[str]:
    memory = Memory()
    memory.observe(view, 0.0)
    return plain(of_limit("llm", view, memory, now, width)).splitlines()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_top_shows_what_is_held_of_each_bound_within_any_terminal(width: int) -> None:
    lines = top(several(FIVE, BUSY, FED), width, 1_000.0)
    assert all(len(line) <= width for line in lines)
    row = next(line for line in lines if line.startswith("B "))
    assert row.split()[-9:] == ["50", "%", "50", "%", "50", "%", "10", "50", "%"]
    assert "a letter is 1 % of requests, of which the least is free; . is free" in lines
    text = " ".join(lines)
    assert "A orders-writer-7d9f8b6c5d-x2v40:1 is starving: it has had less than its fair" in text
    assert "6 of calls in place of 10" in text


def test_top_has_a_line_for_each_bound() -> None:
    lines = top(several(FIVE, BUSY, FED), 80)
    assert "requests/1s  10 a second: held 80 %, demand 190 %, spend 80 %" in lines
    assert "calls        20 in flight: held 80 %, demand 190 %, in use 80 %" in lines


def test_leases_have_a_column_for_each_bound_within_80_columns() -> None:
    shown = tables.plain(fitted(page("llm", several(FIVE, BUSY, FED)), 80)).splitlines()
    titles = next(line for line in shown if line.startswith("instance"))
    assert titles.split()[2:] == ["requests", "requests/1s", "tokens", "calls", "bytes_out"]
    assert all(len(line) <= 80 for line in shown if line[:1] in "i01")
    assert "not shown, since the terminal is narrow: silent, lease" in shown


SIXTEEN = ",".join(f"dimension_{number:02}={9_000 + number}/60s" for number in range(16))
WAITING = (0.03, 1 / 3, 1.2, 0.3, 0.9)


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"\d[\d,.]*", text))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("limits", [FIVE, SIXTEEN])
def test_no_number_is_cut_on_a_terminal_of_any_width(limits: str, width: int) -> None:
    view = several(limits, BUSY, WAITING)
    shown = io.StringIO()
    Console(width=width, file=shown).print(_rich(page("llm", view), width))
    lines = shown.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    # A text that is too long goes on in the next line of its cell: without the gaps it is whole.
    held = {"3", "30"} | ({"1", "10"} if limits is FIVE else set())
    assert numbers_in(shown.getvalue()) >= held
    names = [name for name in re.split("[,=]", limits) if name[0].isalpha()]
    titles = [line for line in lines if line.startswith("instance")]
    assert sum(line.count(name) for name in names for line in titles) >= len(names)
    for row in (line for line in lines if re.match(r"[01]  ?\S*orders", line)):
        assert re.fullmatch(r"\d  ?\S+((  +)(\d+( %)?|-|[\d.]+ s|[\w ,.]+))*", row.rstrip()), row


@pytest.mark.parametrize("width", [60, 80, 120])
def test_top_goes_on_in_a_table_below_where_there_is_no_room(width: int) -> None:
    lines = top(several(SIXTEEN, BUSY, WAITING), width)
    assert all(len(line) <= width for line in lines)
    rows = [line for line in lines if line.startswith("B ")]
    assert sum(line.count("3 %") for line in rows) == 16
    titles = " ".join(line for line in lines if line.startswith("  ") and "…" in line + "…")
    assert sum(titles.count(f"_{number:02}") for number in range(16)) == 16


def test_texts_are_wrapped_in_their_column_and_stay_in_one_table() -> None:
    raised = "90,000 in 60 s, rising by 16.7 each second to 120,000, in 30 min"
    rows = [tables.Row(("tokens", raised, raised)), tables.Row(("calls", "20 in flight", "21"))]
    shown = io.StringIO()
    page = tables.TablePage(("", "was", "is"), rows)
    Console(width=60, file=shown).print(_rich(page, 60))
    lines = shown.getvalue().splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("  ")] == ["tokens", "calls"]
    assert " ".join(line[8:33].strip() for line in lines[1:-1]) == raised


def test_who_holds_one_bound_alone_has_a_lease_and_its_end_is_shown() -> None:
    def shown(lease_ms: int) -> list[str]:
        view = several("a=5/60s,b=2slots", FED)
        (pod,) = view.instances
        nothing = replace(pod.bounds[0], held=0.0)
        pod = replace(pod, bounds=(nothing, *pod.bounds[1:]), lease_ms=lease_ms)
        table = tables.plain(page("llm", replace(view, instances=(pod,))))
        return next(line for line in table.splitlines() if line.startswith("0 ")).split()

    assert shown(4_000)[-4:] == ["4.0", "s", "0.1", "s"]
    assert shown(-5)[-2:] == ["lease", "over"]


def test_one_bound_alone_has_all_columns() -> None:
    view = alone(several(FIVE, BUSY, FED), 3)
    assert capacity(view) == "calls 20 in flight"
    shown = tables.plain(page("llm", view))
    assert "held  limit  lease  wants  spends  share" in shown
    assert "80 of 100 partitions held (80 % of the limit)" in shown


def test_who_waits_for_a_permit_is_shown_with_what_it_costs_in_each_dimension() -> None:
    waits = (0.0, 0.25, 1.0, 0.0, 0.1)
    shown = " ".join(top(several("requests=600/60s+10/1s,tokens=90000/60s", waits), 80))
    assert "1 waits for a permit of requests 60, tokens 9,000" in shown


def test_a_limit_that_cannot_be_written_is_shown_all_the_same() -> None:
    """Names in a layout that others have stored may be any text."""
    view = several("a=5/60s,b=6/1s", BUSY)
    odd = replace(view, terms=replace(view.terms, layout="a b:start,c:start"))
    assert capacity(odd) == "a 5 in 60 s, b 6 a second"


def test_a_ramp_is_an_amount_or_all_of_it_in_a_duration() -> None:
    assert read_ramp("1000/1m") == OneRamp(1_000, 60)
    view = several("a=600/60s,b=20slots")
    bounds = (BoundChange(1_200), BoundChange(slots=True))
    change = LimitChange(bounds, layout=view.terms.layout)
    assert by_second(OneRamp(None, 60), change, view) == {"a": 10}
    assert by_second({"a": OneRamp(30, 60)}, change, view) == {"a": 0.5}
