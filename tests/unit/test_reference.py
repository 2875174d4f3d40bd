"""The reference has every public name, and every public class and function is described."""

from __future__ import annotations

import builtins
import importlib
import inspect
import re
from pathlib import Path

import pytest

from tests.public_names import packages

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page.stem: page.read_text() for page in (DOCS / "reference").glob("*.md")}
"""A page for each module that users import from, by its name."""
PACKAGES = (
    "dispatcher",
    "dispatcher.senders",
    "dispatcher.builders",
    "dispatcher.metrics",
    "dispatcher.registration",
    pytest.param("dispatcher.spark", marks=pytest.mark.spark4),
    "dispatcher.testing",
    "dispatcher.timeline",
    "dispatcher.worker",
    "limiters",
    "limiters.testing",
)
WHOLE = re.compile(r"automodule:: (\S+)\n(?!   :no-members:)")
ONE = re.compile(r"auto(?!module)\w+:: (\S+)")


def shown() -> dict[str, list[str]]:
    """The page of each name that is shown by itself; those of whole modules by the module."""
    found: dict[str, list[str]] = {}
    for page, text in PAGES.items():
        for name in [*WHOLE.findall(text), *ONE.findall(text)]:
            found.setdefault(name, []).append(page)
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_the_reference(package: str) -> None:
    module = importlib.import_module(package)
    names = {name.rpartition(".")[2] for name in shown()}
    missing = [
        name
        for name in module.__all__
        if name not in names and getattr(module, name).__module__ not in shown()
    ]
    assert not missing


def test_every_name_is_on_one_page_and_that_is_the_page_of_its_module() -> None:
    pages = shown()
    assert {name: found for name, found in pages.items() if len(found) > 1} == {}
    others = {"limiters.ArgumentError": "limiters.errors"}  # with the other errors
    for name, (page,) in pages.items():
        assert others.get(name, name).startswith(page), name


def test_every_module_that_users_import_from_has_a_page_and_a_row() -> None:
    """Names of others are shown with those of the package around them."""
    inner = {"limiters.leases", "dispatcher.spark.errors"}
    assert set(PAGES) == set(packages()) - inner
    table = (DOCS / "reference.md").read_text()
    rows = re.findall(r"\[([\w.]+)\]\(reference/([\w.]+)\.md\)", table)
    assert sorted(rows) == sorted((name, name) for name in PAGES)
    for name, text in PAGES.items():
        assert text.startswith(f"# {name}\n")
        assert f"automodule:: {name}\n" in text


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_class_and_function_is_described(package: str) -> None:
    """Methods need a docstring only where it adds something to their name and signature."""
    module = importlib.import_module(package)
    things = {name: getattr(module, name) for name in module.__all__}
    assert [
        name
        for name, thing in things.items()
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and not thing.__doc__
    ] == []


@pytest.mark.parametrize(("page", "package"), [("batcher", "dispatcher"), ("shared", "limiters")])
def test_every_error_that_a_page_names_can_be_caught_with_an_import(
    page: str, package: str
) -> None:
    named = set(re.findall(r"\b[A-Z]\w+Error\b", (DOCS / f"{page}.md").read_text()))
    builtin = {name for name in named if hasattr(builtins, name)}
    assert named - builtin
    assert named - builtin <= set(importlib.import_module(package).__all__)


def test_no_docstring_is_read_as_another_style_of_docstrings() -> None:
    """Napoleon takes what a property says before a colon for its type, and puts it last."""
    assert "napoleon" not in (DOCS / "conf.py").read_text()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_program_in_a_docstring_is_shown_as_one(package: str) -> None:
    """Below a line that ends with one colon it is a quotation: its lines and quotes change."""
    module = importlib.import_module(package)
    quoted = re.compile(r"[^:]:\n\n    +(?!>>>)\S")
    texts = {name: inspect.getdoc(getattr(module, name)) or "" for name in module.__all__}
    assert [name for name, text in texts.items() if quoted.search(text)] == []
