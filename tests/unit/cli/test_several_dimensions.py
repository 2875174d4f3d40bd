"""Tables and pictures of a limit of several dimensions: readable at 80 columns with five bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from dispatcher.cli._commands.leases.table import page
from dispatcher.cli._commands.limit.ramp import OneRamp, by_second, read_ramp
from dispatcher.cli._commands.top.memory import Memory
from dispatcher.cli._commands.top.picture import of_limit
from dispatcher.cli._commands.top.spans import plain
from dispatcher.cli._terminal import tables
from dispatcher.cli._terminal.tables import fitted
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
