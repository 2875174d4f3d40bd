"""Tables of parameters in the docs are generated from what declares them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from docs.parameter_table import table
from limiters._support.options import CheckedOptions, about

DOCS = Path(__file__).parents[2] / "docs"
NAMED = sorted(
    named
    for page in DOCS.glob("*.md")
    for named in re.findall(r"^```\{parameters\} (\S+)$", page.read_text("utf-8"), re.MULTILINE)
)


@dataclass(frozen=True, kw_only=True)
class TravelOptions(CheckedOptions):
    stops: int = field(default=10_000, metadata=about("where it halts"))
    delay: float = field(default=0.5, metadata=about("how late it may be", unit="s"))
    ticket: str | None = field(default=None, metadata=about("its number"))
    quiet: bool = field(default=False, metadata=about("in silence"))
    goal: str = field(metadata=about("where to"))


def test_a_row_has_the_default_with_its_unit_and_the_help() -> None:
    assert table(f"{__name__}.TravelOptions").splitlines()[2:] == [
        "| `goal` | required | where to |",
        "| `stops` | 10,000 | where it halts |",
        "| `delay` | 0.5 s | how late it may be |",
        "| `ticket` | none | its number |",
        "| `quiet` | `False` | in silence |",
    ]


@pytest.mark.parametrize("dataclass", NAMED)
def test_every_option_in_a_page_is_explained(dataclass: str) -> None:
    rows = table(dataclass).splitlines()[2:]
    assert rows
    assert [row for row in rows if row.endswith("|  |")] == []


def test_pages_have_such_tables() -> None:
    assert "dispatcher._core.options.BatcherOptions" in NAMED
