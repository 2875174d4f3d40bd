"""A table of what the instances of a limit have learned of the costs of calls. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dispatcher.cli._terminal.tables import Row, TablePage
from dispatcher.cli._text.wording import about
from limiters.leases import LimitView
from limiters.leases._learned_costs import LearnedKindView, combined

MOST_ROWS = 32
"""Rows of the table: as many as the kinds that metrics show."""


def learned_by(view: LimitView) -> list[LearnedKindView]:
    """Return what its instances have learned, the kind that was settled most often first."""
    return combined(one.learned_costs for one in view.instances)


def learned_page(learned: Sequence[LearnedKindView]) -> TablePage:
    """Return a row for each kind and dimension."""
    shown = learned[:MOST_ROWS]
    has_dimensions = any(one.dimension for one in shown)
    rest = len(learned) - len(shown)
    return TablePage(
        ("=learned", *["dimension"] * has_dimensions, ">estimate", ">settled", ">instances", ""),
        [
            Row(
                (
                    one.kind or "all",
                    *[one.dimension or "-"] * has_dimensions,
                    _estimate(one),
                    f"{one.settled:,}",
                    f"{one.instances:,}",
                    _state(one),
                )
            )
            for one in shown
        ],
        head=("",),
        foot=[f"and {rest:,} more: --json shows all"] * (rest > 0),
    )


def _estimate(one: LearnedKindView) -> str:
    lowest, highest = about(one.lowest), about(one.highest)
    return lowest if lowest == highest else f"{lowest} to {highest}"


def _state(one: LearnedKindView) -> str:
    if not one.cold:
        return "warm"
    return "cold" if one.cold == one.instances else f"cold in {one.cold:,}"
