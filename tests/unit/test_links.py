"""Links in the documents lead somewhere: to a file that is there, and to a heading that it has."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md")]
)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]+)?\)")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def without_programs(page: Path) -> str:
    """Its text but for blocks of code."""
    return "".join(page.read_text("utf-8").split("```")[::2])


@cache
def headings(page: Path) -> frozenset[str]:
    """Return the anchors of this page, by GitHub's rule, which MyST follows."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", without_programs(page))
    slugs: list[str] = []
    for heading in HEADING.findall(text):
        slug = re.sub(r"[^\w\- ]", "", heading.lower().strip()).replace(" ", "-")
        slugs.append(f"{slug}-{slugs.count(slug)}" if slug in slugs else slug)
    return frozenset(slugs)


def broken(page: Path) -> list[str]:
    """The links of this page that lead nowhere. Those of a fragment start at the changelog."""
    base = ROOT if page.parent.name == "changelog.d" and page.name != "README.md" else page.parent
    found = []
    for path, anchor in LINK.findall(re.sub(r"`[^`]*`", "", without_programs(page))):
        target = (base / path).resolve() if path else page
        if not target.exists() or not target.is_relative_to(ROOT):
            found.append(path)
        elif anchor and anchor[1:] not in headings(target):
            found.append(f"{path}{anchor}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert broken(page) == []


def test_what_leads_nowhere_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.test_links.ROOT", tmp_path)
    there, page = tmp_path / "there.md", tmp_path / "page.md"
    there.write_text("# What `it` does, in 2 lines\n\n## More\n\n```sh\n# none\n```\n\n## More\n")
    good = "[a](there.md) [b](there.md#what-it-does-in-2-lines) [c](there.md#more-1) `[d](no.md)`"
    page.write_text(f"{good}\n[e](away.md) [f](there.md#none) [g](#none) ![h](away.svg)\n")
    assert broken(page) == ["away.md", "there.md#none", "#none", "away.svg"]
