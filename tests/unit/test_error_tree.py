"""One tree of errors: drawn in the docstring of dispatcher.errors, and shown by the docs."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import dispatcher.errors
from limiters.errors import DispatcherError, Sendable
from tests import public_names
from tests.unit.test_errors import exceptions

ROOT = Path(__file__).parents[2]
WIDTH = 44
HOMES = (
    "dispatcher",
    *(
        f"dispatcher.{name}"
        for name in (
            "builders",
            "registration",
            "timeline",
            "worker",
            "spark",
            "metrics",
            "report",
            "testing",
        )
    ),
    "limiters",
    "limiters.embedded",
    "limiters.errors",
    "dispatcher.spark.errors",
)
"""Where users import from; the first that has a class is its home."""


def home_of(kind: type[BaseException]) -> str | None:
    """The first of the public modules that has it; None if it is private."""
    for name in HOMES:
        if getattr(importlib.import_module(name), kind.__name__, None) is kind:
            return name
    return None


def drawn(kind: type[BaseException], public: set[type[BaseException]], depth: int = 0) -> list[str]:
    """The lines of `kind` and of those below it, by name."""
    others = ", ".join(one.__name__ for one in kind.__bases__[1:])
    name = f"{'  ' * depth}{kind.__name__}{f' ({others})' if others else ''}"
    lines = [f"{name:{WIDTH}} {home_of(kind)}"]
    for below in sorted(
        (one for one in public if one.__bases__[0] is kind), key=lambda one: one.__name__
    ):
        lines += drawn(below, public, depth + 1)
    return lines


def tree() -> str:
    """Return the tree that the docstring has to show."""
    public = {one for one in exceptions() if home_of(one) and one is not Sendable}
    [argument_error] = [one for one in public if one.__name__ == "ArgumentError"]
    return "\n".join(drawn(DispatcherError, public) + drawn(argument_error, public))


@pytest.mark.spark4  # older Sparks cannot import all of dispatcher.spark
def test_the_docstring_draws_all_public_errors() -> None:
    document = dispatcher.errors.__doc__ or ""
    shown = [line.removeprefix("    ") for line in document.splitlines() if line[:4] == "    "]
    assert "\n".join(shown) == tree()


def test_every_error_of_this_project_has_one_root() -> None:
    errors = [one for one in exceptions() if one.__name__.endswith("Error")]
    strangers = {
        one.__name__
        for one in errors
        if not issubclass(one, DispatcherError) and not one.__module__.startswith("dispatcher.cli")
    }
    # ArgumentError is a ValueError, IllegalTransitionError a defect of the engine; the others are
    # caught inside their package.
    assert strangers == {
        *("ArgumentError", "FormatError", "IllegalTransitionError", "OtherRowsError"),
        "UnreadableError",
    }


def test_every_error_that_is_drawn_is_a_noted_public_name() -> None:
    document = dispatcher.errors.__doc__ or ""
    drawn_errors = re.findall(r"^ {4,}(\w+Error)\b.* ([a-z._]+)$", document, re.MULTILINE)
    noted = public_names.FILE.read_text()
    assert len(drawn_errors) > 40
    assert [
        name
        for name, home in drawn_errors
        if not re.search(rf"^{re.escape(home)}\.{name}(\(| = )", noted, re.MULTILINE)
    ] == []


def test_the_page_of_errors_shows_the_docstring() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    assert "automodule:: dispatcher.errors" in page
