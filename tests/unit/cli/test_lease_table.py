"""The table of who holds how much of a limit: readable in 80 columns, and nothing is left out."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dispatcher.cli._commands.leases.table import as_json, page
from dispatcher.cli._terminal.tables import _rich, fitted, plain
from dispatcher.cli._text.wording import terms_of
from limiters.leases import InstanceView, LimitView
from limiters.leases._messages import Terms
from tests.views import instance, limit

BUSY = {"need": 48_310.0, "spent": 9_980.0, "share": 1 / 3, "held": 1 / 3}


def lines_of(view: LimitView) -> list[str]:
    return plain(page("orders", view)).splitlines()


def row_of(view: LimitView, name: str) -> list[str]:
    return next(line for line in lines_of(view) if line.startswith(name)).split()


def test_a_share_is_shown_in_partitions_and_in_per_cent_within_80_columns() -> None:
    view = limit(*(instance(f"017c4377{n}", label=f"worker-{n}:4242", **BUSY) for n in range(3)))
    assert all(len(line) <= 80 for line in lines_of(view))
    assert row_of(view, "017c43770")[2:5] == ["6.7", "33", "%"]
    assert row_of(view, "017c43770")[-3] == "6.7"
    assert "20 of 20 partitions held (100 % of the limit)" in lines_of(view)
    told = as_json("orders", view)
    assert told["held"] == pytest.approx(20)
    assert [one["held"] for one in told["instances"]] == pytest.approx([20 / 3] * 3)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("held", "shown"),
    [(1.0, "20"), (1 / 30, "0.67"), (0.001, "0.02"), (1e-6, "2e-05"), (0.0, "0"), (0.35, "7")],
)
def test_however_small_a_share_is_it_is_not_shown_as_nothing(held: float, shown: str) -> None:
    assert row_of(limit(instance("a", held=held)), "a")[2] == shown


def test_names_stay_whole_on_a_terminal_of_80_columns_while_instances_wait_for_permits() -> None:
    waits = {"waits_for": 500.0, "waits_ms": 2_100}
    view = limit(*(instance(f"017c4377{n}", label=f"worker-{n}:4242", **waits) for n in range(3)))
    shown = io.StringIO()
    Console(width=80, file=shown).print(_rich(page("orders", view), 80))
    for n in range(3):
        assert f"017c4377{n}  worker-{n}:4242 " in shown.getvalue()


def on_80_columns(*instances: InstanceView) -> list[str]:
    shown = io.StringIO()
    Console(width=80, file=shown).print(_rich(page("orders", limit(*instances)), 80))
    return shown.getvalue().splitlines()


def test_long_names_are_shortened_in_their_middle_and_the_least_columns_left_out() -> None:
    odd = {"waits_for": 500.0, "waits_ms": 2_100, "weight": 2.0, "reserved": 5.0}
    label = "orders-writer-7d9f8b6c5d-x2v4q:1"
    lines = on_80_columns(instance("017c4377", label=label, **BUSY | odd))
    assert lines[2].split() == [
        "instance",
        "host:process",
        *["held", "limit", "wants", "spends", "share", "waits", "for"],
    ]
    row = lines[3]
    assert len(row) <= 80
    assert "x2v4q:1" in row
    assert "500, 2.1 s" in row
    assert "not shown, since the terminal is narrow: reserved, weight, silent, lease" in lines
    plainly = lines_of(limit(instance("a", label=label, **BUSY | odd)))
    assert label in plainly[3]


def test_a_table_that_fits_is_left_as_it_is() -> None:
    view = limit(instance("017c4377", label="worker-1:4242", **BUSY))
    assert plain(fitted(page("orders", view), 80)) == plain(page("orders", view))
    assert plain(fitted(page("orders", limit()), 20)) == plain(page("orders", limit()))


def test_columns_that_are_not_needed_are_left_out() -> None:
    plainly = lines_of(limit(instance("a", **BUSY)))[2]
    assert plainly.split()[-1] == "silent"
    odd = limit(
        instance("a", weight=2.0, **BUSY),
        instance("b", reserved=7.0),
        instance("c", waits_for=500.0, waits_ms=2_100),
        instance("d", evicted=True),
    )
    assert "silent  weight  reserved   waits for" in lines_of(odd)[2]
    assert row_of(odd, "a")[-3:] == ["2", "0", "-"]
    assert row_of(odd, "b")[-3:] == ["1", "7", "-"]
    assert row_of(odd, "c")[-3:] == ["500,", "2.1", "s"]
    assert row_of(odd, "d")[-1] == "evicted"
    assert "1 waits for a permit of 500, for 2.1 s" in lines_of(odd)


def test_uncertainty_and_a_clock_that_is_ahead_are_shown_below() -> None:
    view = limit(uncertain_ms=4_200, cause="the server is another one", skew_ms=3_100)
    below = "\n".join(lines_of(view))
    assert "grants nothing new for 4.2 s: the server is another one" in below
    assert "3.1 s of Redis' clock do not count: it was set forward, or no instance asked" in below
    told = as_json("orders", view)
    assert [told[it] for it in ("uncertain", "cause", "clock_skew")] == [
        4.2,
        "the server is another one",
        3.1,
    ]
    assert "Redis' clock" not in "\n".join(lines_of(limit(skew_ms=5)))


@pytest.mark.parametrize(
    ("capacity", "factor", "shown"),
    [
        (20_000, 1_000, "20, each worth 1,000"),
        (2_050, 100, "21, each worth 97.619"),
        (100, 500, "1, worth 100"),
        (0.5, 0.125, "4, each worth 0.125"),
    ],
)
def test_all_partitions_are_worth_the_same(capacity: float, factor: float, shown: str) -> None:
    view = limit(terms=Terms.scalar(capacity, factor, 1_000, 5_000))
    assert dict(terms_of(view))["partitions"] == shown
