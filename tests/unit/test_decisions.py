"""docs/adr: each decision is short and whole, and the index lists all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "adr"
DECISIONS = sorted(FOLDER.glob("0*.md"))
SECTIONS = ["Context", "Decision", "Alternatives", "Consequences", "What would change it"]
MOST_LINES = 60


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: str(page.name))
def test_a_decision_is_short_and_whole(page: Path) -> None:
    text = page.read_text("utf-8")
    assert len(text.splitlines()) <= MOST_LINES
    assert re.findall("^## (.*)$", text, re.MULTILINE) == SECTIONS
    assert text.startswith(f"# {int(page.name[:4])}. ")


def test_the_index_lists_the_decisions_in_order() -> None:
    index = (FOLDER / "index.md").read_text("utf-8")
    listed = re.findall(r"^\| (\d+) \| \[[^]]+\]\(([^)]+)\) \|", index, re.MULTILINE)
    assert listed == [(str(at), page.name) for at, page in enumerate(DECISIONS, 1)]
