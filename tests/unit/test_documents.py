"""Names in the documents exist: extras, make targets, modules to run, versions, figures."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
PAGES = {
    str(page.relative_to(ROOT)): page.read_text("utf-8")
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if page.name != "CHANGELOG.md"  # speaks of earlier versions, too
}
NUMBER = re.compile(r"\d[\d,.]*\d|\d")

each_page = pytest.mark.parametrize("page", PAGES)


@each_page
def test_the_extras_that_it_installs_are_there(page: str) -> None:
    named = re.findall(r"(?:batch-dispatcher|/path/of/(?:it|the/copy))\[([\w,]+)\]", PAGES[page])
    extras = {extra for names in named for extra in names.split(",")}
    assert extras <= set(PROJECT["project"]["optional-dependencies"])


@each_page
def test_the_make_targets_that_it_names_are_listed_by_make_help(page: str) -> None:
    listed = set(re.findall(r'@echo "make (\w+)', MAKEFILE)) | {"help"}
    named = re.findall(r"(?:`|^\$ )make ([a-z]+)", PAGES[page], re.MULTILINE)
    assert set(named) <= listed


@each_page
def test_the_modules_that_it_runs_are_there(page: str) -> None:
    ours = re.compile(r"python -m ((?:dispatcher|limiters|tests|benchmarks|grafana|docs)[\w.]*)")
    missing = []
    for name in set(ours.findall(PAGES[page])):
        spec = importlib.util.find_spec(name.rstrip("."))
        if spec is None or (spec.submodule_search_locations and not main_of(name.rstrip("."))):
            missing.append(name)
    assert missing == []


def main_of(package: str) -> bool:
    return importlib.util.find_spec(f"{package}.__main__") is not None


def with_figures() -> Iterator[tuple[str, str]]:
    """Where a page names figures of docs/figures.md: the README's table, and each paragraph, item
    or row that links to them."""
    table = PAGES["README.md"].partition("| promise | figure |\n| --- | --- |\n")[2]
    for row in table.partition("\n\n")[0].splitlines():
        yield "README.md", row.split(" | ")[1]
    for page, text in PAGES.items():
        for block in re.split(r"\n\n|\n(?=- |\| )", text):
            if page != "README.md" and "figures.md)" in block:
                yield page, re.sub(r"\]\([^)]*\)", "]", block)


def test_figures_are_those_of_their_page() -> None:
    known = set(NUMBER.findall(PAGES["docs/figures.md"]))
    blocks = list(with_figures())
    assert len(blocks) > 12
    assert [
        (page, number)
        for page, block in blocks
        for number in NUMBER.findall(block)
        if number not in known
    ] == []


@pytest.mark.parametrize(
    "word", ["429", "503", "throttling", "rate limit", "DynamoDB", "Cosmos DB", "OpenAI"]
)
def test_the_search_of_the_docs_finds_what_people_look_for(word: str) -> None:
    """Sphinx indexes no numbers in texts, and finds a title only by half of it: an index entry."""
    assert f"   ! single: {word}\n" in PAGES["docs/services.md"]
