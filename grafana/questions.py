"""A panel: a question, how it is answered, and what to do then. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Look = Literal["lines", "stacked", "number", "table", "timeline"]

GREEN, AMBER, RED, BLUE, PURPLE, GREY = "green", "orange", "red", "blue", "purple", "gray"

OUTCOMES = {
    "done": GREEN,
    "sent": GREEN,
    "failed": RED,
    "rejected": RED,
    "dead": RED,
    "abandoned": AMBER,
    "late": AMBER,
    "lost": AMBER,
    "overdue": AMBER,
    "returned": GREY,
    "free": GREY,
    "waiting": GREY,
    "replayed": BLUE,
    "held": BLUE,
    "new": BLUE,
    "processing": GREEN,
    "spent": GREEN,
    "wanted": PURPLE,
    "limit": RED,
    "to": GREY,
    "reserved": AMBER,
}
"""The colour of a series with such a name, on every dashboard."""

Words = Mapping[float, tuple[str, str]]
"""Values that are words, and their colours."""

YES_IS_GOOD: Words = {1: ("yes", GREEN), 0: ("no", RED)}
YES_IS_BAD: Words = {1: ("yes", RED), 0: ("no", GREEN)}


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a dashboard, for the object of a series, a row or an alert."""

    board: str
    """The uid of the dashboard."""
    choices: tuple[str, ...] = ()
    """Labels, each of which sets the variable of its name."""
    panel: str = ""
    """The title of one panel; "" for the whole dashboard."""


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL query, and the names of its series; in a table, the heading of its column."""

    expression: str
    legend: str
    unit: str = ""
    """The unit; "" for that of the panel."""
    words: Words = field(default_factory=dict)
    links: tuple[Link, ...] = ()
    """Links in addition to those of the panel."""


@dataclass(frozen=True, slots=True)
class Question:
    """A panel. Its advice is what to do if the answer is bad."""

    title: str
    advice: str
    queries: tuple[Query, ...]
    unit: str
    look: Look = "lines"
    width: int = 12
    height: int = 8
    steps: tuple[tuple[float, str], ...] = ()
    """The colour from each value on; green below the first."""
    words: Words = field(default_factory=dict)
    least: float | None = 0
    most: float | None = None
    links: tuple[Link, ...] = ()
    """Links of each series."""
    labels: Mapping[str, tuple[str, tuple[Link, ...]]] = field(default_factory=dict)
    """For a table: the labels that make a row, with the heading and the links of their column."""


@dataclass(frozen=True, slots=True)
class Group:
    """Panels under one heading."""

    title: str
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """A variable: the values that a label of a metric has."""

    name: str
    label: str
    metric: str
    where: str = ""
    several: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """An annotation: marks events in all panels, where its expression has a value."""

    name: str
    expression: str
    title: str
    tags: tuple[str, ...]
    color: str


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: its panels, variables and marks."""

    uid: str
    title: str
    description: str
    choices: tuple[Choice, ...]
    groups: tuple[Group, ...]
    marks: tuple[Mark, ...] = ()
