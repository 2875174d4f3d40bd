"""The tables of events have exactly those that there are."""

from __future__ import annotations

import re
from pathlib import Path

from dispatcher.events import BATCHER_EVENTS
from limiters.events import LIMITER_EVENTS, SHARED_EVENTS

DOCS = Path(__file__).parents[2] / "docs"


def section(name: str) -> str:
    return (DOCS / name).read_text("utf-8").partition("\n## Events\n")[2].partition("\n## ")[0]


def in_table(text: str) -> set[str]:
    first = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    return {name for cell in first for name in re.findall(r"`([a-z-]+)`", cell)}


def in_words(text: str, before: str) -> set[str]:
    """The names that a sentence before or after the table names."""
    [sentence] = [it for it in re.split(r"\n\n", text) if it.lstrip().startswith(before)]
    return set(re.findall(r"`([a-z-]+)`", sentence))


def test_events_of_a_batcher() -> None:
    text = section("batcher.md")
    assert in_table(text) == BATCHER_EVENTS
    assert in_words(text, "A limiter emits") | {"error"} == LIMITER_EVENTS


def test_events_of_a_shared_limit() -> None:
    text = section("shared.md")
    assert in_words(text, "In addition to those of every limiter") == LIMITER_EVENTS
    assert in_table(text) | LIMITER_EVENTS == SHARED_EVENTS
