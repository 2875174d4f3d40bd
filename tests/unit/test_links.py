"""Links between the documents lead somewhere, with their headings; `make docs` checks it too, once
all is built."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s#]*)(?:#([^)\s]*))?\)")


def without_code(text: str) -> str:
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def anchors_of(text: str) -> set[str]:
    """The headings, as GitHub and MyST name them, and targets that are written down."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    headings += re.findall(r"^(.+)\n-{3,}$", text, re.M)
    slugs = {re.sub(r"[^\w\- ]", "", it.lower()).strip().replace(" ", "-") for it in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.M))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    for path, anchor in LINK.findall(without_code(page.read_text("utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {path}"
        if anchor and target.suffix == ".md":
            assert anchor in anchors_of(target.read_text("utf-8")), f"{page.name}: {path}#{anchor}"
